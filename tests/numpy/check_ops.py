#!/usr/bin/env python3
"""Compares the reference interpreter with NumPy, operator by operator.

expr_library_test writes a manifest of cases (op, parameters, inputs, outputs as raw files); here
each operator is written once more, from its definition and not from its .te file. Floats are
compared in f64 with the error of one rounding per tensor; integers exactly.
"""
import json
import math
import sys
from collections import Counter

import numpy as np

TYPES = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": np.uint16,
         "i64": np.int64, "i32": np.int32, "i16": np.int16, "i8": np.int8, "u8": np.uint8,
         "bool": np.bool_}
EPSILON = {"f64": 2e-14, "f32": 4e-6, "f16": 2e-3, "bf16": 1.6e-2}


def load(tensor):
    raw = np.fromfile(tensor["file"], TYPES[tensor["type"]]).reshape(tensor["shape"])
    if tensor["type"] == "bf16":
        raw = (raw.astype(np.uint32) << 16).view(np.float32)
    return raw.astype(np.float64) if raw.dtype.kind == "f" else raw


def widen(x):
    return x if x.dtype.kind == "f" else x.astype(np.int64)


erf = np.vectorize(math.erf, otypes=[float])


def windows(x, kernel, stride, pad, fill=0.0, dilation=1):
    """x[n, *spatial, ...]: yields (tap, the pixels it meets, [n, *out, ...])."""
    dims = len(kernel)
    width = [(0, 0)] + [(pad, pad)] * dims + [(0, 0)] * (x.ndim - 1 - dims)
    padded = np.pad(x, width, constant_values=fill)
    out = [(padded.shape[1 + d] - dilation * (kernel[d] - 1) - 1) // stride + 1
           for d in range(dims)]
    for tap in np.ndindex(*kernel):
        cut = tuple(slice(tap[d] * dilation, tap[d] * dilation + (out[d] - 1) * stride + 1, stride)
                    for d in range(dims))
        yield tap, padded[(slice(None),) + cut]


def conv(x, f, dims, stride, pad, dilation=1, groups=1):
    x, f, total = widen(x), widen(f), 0
    ci, co = f.shape[-2], f.shape[-1] // groups
    for tap, pixels in windows(x, f.shape[:dims], stride, pad, dilation=dilation):
        parts = [pixels[..., g * ci:(g + 1) * ci] @ f[tap][:, g * co:(g + 1) * co]
                 for g in range(groups)]
        total = total + np.concatenate(parts, axis=-1)
    return total


def transposed(x, f, stride, pad):
    x, f = widen(x), widen(f)
    n, h, w, _ = x.shape
    r = f.shape[0]
    full = np.zeros((n, (h - 1) * stride + r, (w - 1) * stride + r, f.shape[-1]), x.dtype)
    for y in range(h):
        for z in range(w):
            full[:, y * stride:y * stride + r, z * stride:z * stride + r] += np.einsum(
                "nc,rsco->nrso", x[:, y, z], f)
    return full[:, pad:full.shape[1] - pad, pad:full.shape[2] - pad]


def capsule(x, f, stride, pad):
    x, f = widen(x), widen(f)
    return sum(np.einsum("nyxiqc,qjco->nyxijo", pixels, f[tap])
               for tap, pixels in windows(x, f.shape[:2], stride, pad))


def depthwise(x, f, stride, pad):
    x, f = widen(x), widen(f)
    return sum(pixels * f[tap] for tap, pixels in windows(x, f.shape[:2], stride, pad))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layer_norm(x, axes, g, b, eps):
    centred = x - x.mean(axes, keepdims=True)
    return centred / np.sqrt((centred ** 2).mean(axes, keepdims=True) + eps) * g + b


def rms_norm(x, axes, g, eps):
    return x / np.sqrt((x ** 2).mean(axes, keepdims=True) + eps) * g


def attention(q, k, v, causal):
    scores = np.einsum("bhid,bhjd->bhij", q, k) / math.sqrt(q.shape[-1])
    if causal:
        scores = np.where(np.tri(scores.shape[-1], dtype=bool), scores, -np.inf)
    return softmax(scores) @ v


def chain(a, b):
    half = np.maximum(a * b + a, 0) * 0.5 - b
    return half * half


def dense_i8(a, b, scale):
    total = (a.astype(np.int64) @ b.astype(np.int64)).astype(np.float32).astype(np.float64)
    return np.clip(np.rint(total * scale), 0, 255).astype(np.uint8)


def requantize(p, total, bias, scale):
    """i32 sums as bytes, by f32 arithmetic."""
    i32 = (total + widen(bias)).astype(np.int32)
    scaled = i32.astype(np.float32) * scale.astype(np.float32)
    f32 = np.rint(scaled) + np.float32(p["zp"])
    low, high = (0, 255) if p["T"] == "u8" else (-128, 127)
    return np.clip(np.minimum(np.maximum(f32, p["lo"]), p["hi"]), low, high).astype(TYPES[p["T"]])


def requantized(total):
    """The operator whose sums are those of `total`, which takes all but bias and scale."""
    return lambda p, *inputs: requantize(p, total(p, *inputs[:-2]), *inputs[-2:])


def max_pool(x, p):
    least = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    taps = [pixels for _, pixels in
            windows(x, (p["R"], p["S"]), p["stride"], p["pad"], fill=least)]
    return np.max(taps, axis=0)


def window_sums(x, p):
    taps = [pixels for _, pixels in windows(widen(x), (p["R"], p["S"]), p["stride"], p["pad"])]
    return np.sum(taps, axis=0)


def mean(total, count):
    return total / count if total.dtype.kind == "f" else total // count


def product(p, a, b):
    return widen(a) @ widen(b)


def conv2d(p, x, f):
    return conv(x, f, 2, p["stride"], p["pad"], p.get("dilation", 1), p.get("groups", 1))


def conv2d_residual(p, x, f, residual, factor):
    return conv2d(p, x, f) + widen(residual) * widen(factor)


def add_scaled(p, a, b, factor_a, factor_b):
    return widen(a) * widen(factor_a) + widen(b) * widen(factor_b)


def gelu(x):
    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


OPS = {
    "matmul": product,
    "matmul_u8i8": product,
    "dense_u8i8": product,
    "batch_matmul": product,
    "dense": product,
    "dense_bias": lambda p, a, b, bias: product(p, a, b) + bias,
    "dense_relu": lambda p, a, b, bias: np.maximum(product(p, a, b) + bias, 0),
    "dense_gelu": lambda p, a, b, bias: gelu(a @ b + bias),
    "dense_i8": lambda p, a, b, scale: dense_i8(a, b, scale),
    "conv1d": lambda p, x, f: conv(x, f, 1, p["stride"], p["pad"]),
    "conv2d": conv2d,
    "conv3d": lambda p, x, f: conv(x, f, 3, p["stride"], p["pad"]),
    "conv2d_grouped": conv2d,
    "conv2d_dilated": conv2d,
    "conv2d_depthwise": lambda p, x, f: depthwise(x, f, p["stride"], p["pad"]),
    "conv2d_transpose": lambda p, x, f: transposed(x, f, p["stride"], p["pad"]),
    "conv2d_capsule": lambda p, x, f: capsule(x, f, p["stride"], p["pad"]),
    "conv2d_bn_relu": lambda p, x, f, scale, shift:
        np.maximum(conv2d(p, x, f) * scale + shift, 0),
    "matmul_requant": requantized(product),
    "dense_requant": requantized(product),
    "batch_matmul_requant": requantized(product),
    "conv1d_requant": requantized(lambda p, x, f: conv(x, f, 1, p["stride"], p["pad"])),
    "conv2d_requant": requantized(conv2d),
    "conv2d_residual_requant": requantized(conv2d_residual),
    "conv2d_grouped_requant": requantized(conv2d),
    "conv2d_dilated_requant": requantized(conv2d),
    "conv2d_depthwise_requant":
        requantized(lambda p, x, f: depthwise(x, f, p["stride"], p["pad"])),
    "conv2d_transpose_requant":
        requantized(lambda p, x, f: transposed(x, f, p["stride"], p["pad"])),
    "conv2d_capsule_requant": requantized(lambda p, x, f: capsule(x, f, p["stride"], p["pad"])),
    "conv3d_requant": requantized(lambda p, x, f: conv(x, f, 3, p["stride"], p["pad"])),
    "add_requant": requantized(add_scaled),
    "avg_pool2d_requant": requantized(lambda p, x: window_sums(x, p)),
    "global_avg_pool2d_requant": requantized(lambda p, x: widen(x).sum((1, 2))),
    "norm": lambda p, x: np.sqrt((x ** 2).sum((1, 2))),
    "layer_norm": lambda p, x, g, b: layer_norm(x, (1,), g, b, p["eps"]),
    "layer_norm_2d": lambda p, x, g, b: layer_norm(x, (1, 2), g, b, p["eps"]),
    "rms_norm": lambda p, x, g: rms_norm(x, (1,), g, p["eps"]),
    "rms_norm_2d": lambda p, x, g: rms_norm(x, (1, 2), g, p["eps"]),
    "softmax": lambda p, x: softmax(x),
    "attention": lambda p, q, k, v: attention(q, k, v, False),
    "causal_attention": lambda p, q, k, v: attention(q, k, v, True),
    "transpose_batch_matmul_softmax": lambda p, q, k: softmax(np.einsum("bihd,bjhd->bhij", q, k)),
    "add": lambda p, a, b: a + b,
    "mul": lambda p, a, b: a * b,
    "bias_add": lambda p, a, b: a + b,
    "relu": lambda p, x: np.maximum(x, 0).astype(x.dtype),
    "gelu": lambda p, x: gelu(x),
    "sigmoid": lambda p, x: 1 / (1 + np.exp(-x)),
    "silu": lambda p, x: x / (1 + np.exp(-x)),
    "tanh": lambda p, x: np.tanh(x),
    "exp": lambda p, x: np.exp(x),
    "elementwise_chain": lambda p, a, b: chain(a, b),
    "transpose": lambda p, x: x.T,
    "transpose_heads": lambda p, x: x.transpose(0, 2, 1, 3),
    "gather_rows": lambda p, table, rows: table[rows],
    "row_sum": lambda p, x: widen(x).sum(1),
    "column_sum": lambda p, x: widen(x).sum(0),
    "total_sum": lambda p, x: widen(x).sum(),
    "middle_sum": lambda p, x: widen(x).sum(1),
    "outer_sum": lambda p, x: widen(x).sum((0, 2)),
    "row_max": lambda p, x: x.max(1),
    "row_min": lambda p, x: x.min(1),
    "column_max": lambda p, x: x.max(0),
    "row_prod": lambda p, x: widen(x).prod(1),
    "row_mean": lambda p, x: mean(widen(x).sum(1), p["N"]),
    "max_pool2d": lambda p, x: max_pool(x, p),
    "avg_pool2d": lambda p, x: mean(window_sums(x, p), p["R"] * p["S"]),
    "global_avg_pool2d": lambda p, x: mean(widen(x).sum((1, 2)), p["H"] * p["W"]),
    "global_max_pool2d": lambda p, x: x.max((1, 2)),
}


def number(text):
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


def check(case):
    if case["op"] not in OPS:
        return "no NumPy definition: add one to OPS"
    parameters = {name: number(text) for name, text in case["parameters"].items()}
    want = np.asarray(OPS[case["op"]](parameters, *[load(t) for t in case["inputs"]]))
    out = case["outputs"][0]
    got = load(out)
    if want.shape != got.shape:
        return f"shape {got.shape}, NumPy has {want.shape}"
    if got.dtype.kind != "f":
        return "" if np.array_equal(got, want.astype(got.dtype)) else "integers differ"
    tolerance = EPSILON[out["type"]]
    same = np.isclose(got, want, rtol=tolerance, atol=tolerance) | (got == want)
    return "" if same.all() else f"differs by {np.abs(got - want).max()}"


def main():
    cases = json.load(open(sys.argv[1]))
    failed = 0
    for case in cases:
        error = check(case)
        if error:
            failed += 1
            print(f"{case['op']} {case['parameters']}: {error}")
    counts = Counter(case["op"] for case in cases)
    print(f"{len(cases) - failed} of {len(cases)} cases agree with NumPy; {len(counts)} operators, "
          f"at least {min(counts.values())} shapes each")
    unused = sorted(set(OPS) - set(counts))
    if unused:
        print("no such operator in the library:", *unused)
    sys.exit(1 if failed or unused else 0)


if __name__ == "__main__":
    main()
