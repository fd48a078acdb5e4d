#!/usr/bin/env python3
"""Compares scheduled, compiled kernels with NumPy.

tuned_numpy_test writes a manifest of cases (op, inputs) with the outputs of several schedules each.
NumPy computes in f64; a kernel may differ by the rounding of K terms in its own type, relative to
the same computation on absolute values. What only moves or compares elements must be equal.
"""
import json
import sys
from collections import Counter

import numpy as np

from check_ops import OPS, load, number

ROUNDOFF = {"u8": 1, "f64": 2.0 ** -53, "f32": 2.0 ** -24, "f16": 2.0 ** -11, "bf16": 2.0 ** -8}
EXACT = {"transpose", "transpose_heads", "gather_rows", "relu", "row_max", "row_min", "column_max",
         "max_pool2d", "global_max_pool2d"}
NO_EXTENTS = {"stride", "pad", "dilation", "groups"}
WINDOW_DIMENSIONS = {"conv3d": 3, "conv2d_transpose": 2}  # where R stands for several
REPORTED = 8


def cancelled(op, parameters, inputs):
    """What subtractions cancel, which absolute values do not show, at the size that it had."""
    if not op.startswith("layer_norm"):
        return 0
    x, g, _ = inputs
    axes = tuple(range(1, x.ndim))
    mean = x.mean(axes, keepdims=True)
    deviation = np.sqrt(((x - mean) ** 2).mean(axes, keepdims=True) + parameters["eps"])
    return np.abs(g) * (np.abs(x) + np.abs(mean)) / deviation


def terms(op, parameters, inputs, results):
    """How many points of the operator stand behind a result."""
    if op == "softmax" or "_norm" in op:   # each also behind the others of its group
        return inputs[0].size / parameters.get("B", parameters["M"])
    points = parameters.get("R", 1) ** (WINDOW_DIMENSIONS.get(op, 1) - 1)
    for name, value in parameters.items():
        if isinstance(value, int) and name not in NO_EXTENTS:
            points *= value
    return points / results


def unrounded(inputs):
    """Of dense_i8, in f64: what is rounded to bytes."""
    a, b, scale = inputs
    return np.clip((a.astype(np.int64) @ b.astype(np.int64)) * scale, 0, 255)


def expected(case):
    """What NumPy has, and the scale of rounding errors of each element."""
    parameters = {name: number(text)
                  for name, text in (word.split("=") for word in case["words"][1:])}
    inputs = [load(tensor) for tensor in case["inputs"]]
    want = np.asarray(OPS[case["op"]](parameters, *inputs))
    if case["op"] == "dense_i8":           # f32 may round a half to the other side
        return unrounded(inputs), 0.5 + 1e-4
    if want.dtype.kind != "f":
        return want, None
    scale = np.maximum(1, np.abs(OPS[case["op"]](parameters, *[np.abs(x) for x in inputs])))
    scale = np.maximum(scale, cancelled(case["op"], parameters, inputs))
    return want, 2 * scale * (4 + np.sqrt(terms(case["op"], parameters, inputs, want.size)))


def check(case, want, scale, tensor):
    """The complaint, "" if there is none; and the largest error as a share of what is allowed."""
    got = load(tensor)
    if got.shape != want.shape:
        return f"shape {got.shape}, NumPy has {want.shape}", 0
    if scale is None:
        return "" if np.array_equal(got, want.astype(got.dtype)) else "integers differ", 0
    tolerance = 0 if case["op"] in EXACT else ROUNDOFF[tensor["type"]] * scale
    with np.errstate(invalid="ignore"):    # of equal infinities
        error = np.abs(got - want)
    wrong = ~((got == want) | (error <= tolerance))
    if not wrong.any():
        return "", 0 if case["op"] in EXACT else (error / tolerance).max()
    at = tuple(np.argwhere(wrong)[0])
    where = f"at {list(map(int, at))} {got[at]}, not {want[at]}"
    return f"{wrong.sum()} of {got.size} elements differ; {where}", 0


def main():
    cases = json.load(open(sys.argv[1]))
    failed = 0
    counts, nearest = Counter(), Counter()
    for case in cases:
        want, scale = expected(case)
        for run in case.get("runs", []):
            counts[case["op"]] += 1
            error, share = check(case, want, scale, run["output"])
            nearest[case["op"]] = max(nearest[case["op"]], share)
            if not error:
                continue
            failed += 1
            if failed <= REPORTED:
                print(" ".join(case["words"]),
                      f"on {run['target']}, {run['threads']} threads: {error}")
                print(run["schedule"])
    print(f"{sum(counts.values()) - failed} of {sum(counts.values())} kernels agree with NumPy: "
          f"{len(cases)} shapes of {len(counts)} operators")
    print("largest error, as a share of the tolerance:",
          ", ".join(f"{op} {share:.2f}" for op, share in nearest.items()))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
