#!/usr/bin/env python3
"""Compares scheduled, compiled kernels with NumPy.

tuned_numpy_test writes a manifest of cases (op, inputs) with the outputs of several schedules each.
NumPy computes in f64; a kernel may differ by the rounding of K terms in its own type, relative to the
same computation on absolute values. What only moves or compares elements must be equal.
"""
import json
import sys
from collections import Counter

import numpy as np

from check_ops import OPS, load, number

ROUNDOFF = {"f64": 2.0 ** -53, "f32": 2.0 ** -24, "f16": 2.0 ** -11, "bf16": 2.0 ** -8}
EXACT = {"transpose", "row_max"}
REPORTED = 8


def expected(case):
    """What NumPy has, and the scale of rounding errors of each element."""
    parameters = {name: number(text) for name, text in (word.split("=") for word in case["words"][1:])}
    inputs = [load(tensor) for tensor in case["inputs"]]
    want = np.asarray(OPS[case["op"]](parameters, *inputs))
    if want.dtype.kind != "f":
        return want, None
    scale = np.maximum(1, np.abs(OPS[case["op"]](parameters, *[np.abs(x) for x in inputs])))
    points = np.prod([value for value in parameters.values() if isinstance(value, int)])
    return want, 4 * scale * (4 + np.sqrt(points / want.size))


def check(case, want, scale, tensor):
    got = load(tensor)
    if got.shape != want.shape:
        return f"shape {got.shape}, NumPy has {want.shape}"
    if scale is None:
        return "" if np.array_equal(got, want.astype(got.dtype)) else "integers differ"
    tolerance = 0 if case["op"] in EXACT else ROUNDOFF[tensor["type"]] * scale
    wrong = ~((got == want) | (np.abs(got - want) <= tolerance))
    if not wrong.any():
        return ""
    at = tuple(np.argwhere(wrong)[0])
    return f"{wrong.sum()} of {got.size} elements differ; at {list(map(int, at))} {got[at]}, not {want[at]}"


def main():
    cases = json.load(open(sys.argv[1]))
    failed = 0
    counts = Counter()
    for case in cases:
        want, scale = expected(case)
        for run in case.get("runs", []):
            counts[case["op"]] += 1
            error = check(case, want, scale, run["output"])
            if not error:
                continue
            failed += 1
            if failed <= REPORTED:
                print(" ".join(case["words"]), f"on {run['target']}, {run['threads']} threads: {error}")
                print(run["schedule"])
    print(f"{sum(counts.values()) - failed} of {sum(counts.values())} kernels agree with NumPy: "
          f"{len(cases)} shapes of {len(counts)} operators")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
