#!/usr/bin/env python3
"""The suite (bench/workloads/ansor.json) written in jax.numpy: each function with a tuned kernel in its
place (lw.jax.optimize) against XLA's own code for it, weights as arguments, one thread each, interleaved;
medians of rounds. A case that has no kernel, because its operations have no words or because the seconds
were over before one was verified, is XLA's on both sides, and is said.

    python bench/python/jax_suite.py --seconds 10 [--db lw.db] [--batch 1] [--json FILE] [CASE...]
"""
import json
import os
import pathlib
import statistics

from against_xla import measure  # isort: skip  (before JAX is read)

import jax
import jax.numpy as jnp
from options import tuning_parser

SUITE = pathlib.Path(__file__).resolve().parents[1] / "workloads" / "ansor.json"


def convolution(dimensions, groups=1):
    """Of the last axis' channels: NWC, NHWC, NDHWC and WIO, HWIO, DHWIO."""
    def function(p):
        k = p["kernel"]
        apart, pad = p.get("dilation", 1), p["pad"]
        letters = "DHW"[3 - dimensions:]
        numbers = (f"N{letters}C", f"{letters}IO", f"N{letters}C")
        sizes = [p[name] for name in ("d", "h", "w", "length") if name in p]
        parts = groups if isinstance(groups, int) else p[groups]

        def convolved(x, f):
            return jax.lax.conv_general_dilated(
                x, f, (p["stride"],) * dimensions, [(pad, pad)] * dimensions,
                rhs_dilation=(apart,) * dimensions, feature_group_count=parts,
                dimension_numbers=numbers)
        return convolved, [(p["batch"], *sizes, p["ci"]),
                           (*[k] * dimensions, p["ci"] // parts, p["co"])]
    return function


def depthwise(p):
    return convolution(2, "c")(p | {"ci": p["c"], "co": p["c"]})


def transposed(p):
    k, pad, stride = p["kernel"], p["pad"], p["stride"]

    def convolved(x, f):
        return jax.lax.conv_general_dilated(
            x, f, (1, 1), [(k - 1 - pad,) * 2] * 2, lhs_dilation=(stride, stride),
            dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return convolved, [(p["batch"], p["h"], p["w"], p["ci"]), (k, k, p["ci"], p["co"])]


def capsule(p):
    """A product of 4 x 4 matrices in place of each of a convolution's: of XLA's own operations, a
    convolution with the rows as batch and the columns as channels."""
    q, ci, co = p["capsule"], p["ci"], p["co"]
    plain, _ = convolution(2)(p)

    def convolved(x, f):
        rows = x.transpose(0, 3, 1, 2, 4, 5).reshape(-1, p["h"], p["w"], q * ci)
        weights = f.transpose(0, 1, 2, 4, 3, 5).reshape(p["kernel"], p["kernel"], q * ci, q * co)
        y = plain(rows, weights)
        return y.reshape(p["batch"], q, *y.shape[1:3], q, co).transpose(0, 2, 3, 1, 4, 5)
    return convolved, [(p["batch"], p["h"], p["w"], q, q, ci),
                       (p["kernel"], p["kernel"], q, q, ci, co)]


def normalized(p):
    convolved, shapes = convolution(2)(p)
    return (lambda x, f, scale, shift: jax.nn.relu(convolved(x, f) * scale + shift),
            [*shapes, (p["co"],), (p["co"],)])


def product(p):
    return jnp.matmul, [(p["batch"], p["n"], p["k"]), (p["batch"], p["k"], p["m"])]


def norm(p):
    return (lambda x: jnp.sqrt(jnp.sum(x * x, (1, 2)))), [(p["batch"], p["m"], p["n"])]


def scores(p):
    return (lambda q, k: jax.nn.softmax(jnp.einsum("bihd,bjhd->bhij", q, k)),
            [(p["batch"], p["seq"], p["heads"], p["dim"])] * 2)


OPERATORS = {"C1D": convolution(1), "C2D": convolution(2), "C3D": convolution(3),
             "GRP": convolution(2, "groups"), "DIL": convolution(2), "DEP": depthwise,
             "T2D": transposed, "CAP": capsule, "GMM": product, "NRM": norm, "CBR": normalized,
             "TBS": scores}


def main():
    parser = tuning_parser(__doc__, "jax_suite.db")
    parser.add_argument("cases", nargs="*", help="of these names; none: all of the batch")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    results = []
    for case in json.loads(SUITE.read_text())["workloads"]:
        wanted = case["name"] in options.cases if options.cases else (
            case["params"]["batch"] == options.batch)
        if not wanted:
            continue
        one = measure(*OPERATORS[case["op"]](case["params"]), options)
        results.append({"name": case["name"], "op": case["op"], **one._asdict()})
        print(f"{case['name']:10} {one.us:10.1f} us, XLA {one.xla_us:10.1f} us: {one.ratio:6.2f} x"
              f"{'' if one.kernels else '  (no kernel)'}", flush=True)
    ratios = [one["ratio"] for one in results]
    print(f"geometric mean of {len(ratios)}: {statistics.geometric_mean(ratios):.2f} x, least "
          f"{min(ratios):.2f}")
    if options.json:
        options.json.write_text(json.dumps({"cases": results}, indent=1) + os.linesep)


if __name__ == "__main__":
    main()
