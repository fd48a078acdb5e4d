#!/usr/bin/env python3
"""Models in JAX with kernels in place of what was tuned (lw.jax.optimize) against XLA's own code for the
same function, weights as arguments, one thread each, interleaved; medians of rounds.

    python bench/python/jax_models.py --seconds 10 [--db lw.db] [MODEL...]
"""
import statistics

from against_xla import measure  # isort: skip  (before JAX is read)

import jax
import jax.numpy as jnp
import numpy as np
from options import tuning_parser


def mlp(x, w1, b1, w2, b2):
    return jax.nn.softmax(jax.nn.relu(x @ w1 + b1) @ w2 + b2)


def layer_norm(x, g, b):
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred ** 2).mean(-1, keepdims=True) + 1e-5) * g + b


def attention(x, wq, wk, wv, wo):
    steps, width = x.shape
    q, k, v = ((x @ w).reshape(steps, 12, width // 12).transpose(1, 0, 2) for w in (wq, wk, wv))
    mixed = jax.nn.softmax(jnp.einsum("hqd,hkd->hqk", q, k) / np.sqrt(width // 12)) @ v
    return mixed.transpose(1, 0, 2).reshape(steps, width) @ wo


def residual(x, f1, s1, f2, s2):
    def convolved(x, f):
        return jax.lax.conv_general_dilated(x, f, (1, 1), "SAME",
                                            dimension_numbers=("NHWC", "HWIO", "NHWC"))
    y = jax.nn.relu(convolved(x, f1) * s1[0] + s1[1])
    return jax.nn.relu(convolved(y, f2) * s2[0] + s2[1] + x)


MODELS = {
    "mlp": (mlp, [(64, 768), (768, 3072), (3072,), (3072, 768), (768,)]),
    "layer_norm": (layer_norm, [(512, 768), (768,), (768,)]),
    "attention": (attention, [(128, 768)] + [(768, 768)] * 4),
    "residual": (residual, [(1, 28, 28, 128), (3, 3, 128, 128), (2, 128), (3, 3, 128, 128),
                            (2, 128)]),
}


def main():
    parser = tuning_parser(__doc__, "jax_models.db")
    parser.add_argument("models", nargs="*", default=list(MODELS))
    options = parser.parse_args()
    ratios = []
    for name in options.models:
        one = measure(*MODELS[name], options)
        ratios.append(one.ratio)
        print(f"{name:12} {one.us:10.1f} us, XLA {one.xla_us:10.1f} us: {one.ratio:.2f} x", flush=True)
    print(f"geometric mean {statistics.geometric_mean(ratios):.2f} x")


if __name__ == "__main__":
    main()
