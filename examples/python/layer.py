"""A layer, tuned for a few seconds, then called on NumPy's arrays and within a JAX program."""

import numpy as np

import loopwright as lw

op = lw.op("dense_relu", M=64, N=512, K=512)
tuned = lw.tune(op, seconds=5, trials=24, threads=1, db="layer.db")
print(f"tuned: {tuned.best_us:.1f} us, {tuned.gflops:.0f} GFLOP/s")

generator = np.random.default_rng(0)
A, B, bias = (generator.standard_normal(shape, dtype=np.float32)
              for shape in ((64, 512), (512, 512), (512,)))
wanted = np.maximum(A @ B + bias, 0)
layer = op.kernel(db="layer.db", threads=1).bind(B=B)  # the weights are packed once
assert np.allclose(layer(A, bias), wanted, atol=1e-2)
print("NumPy: as np.maximum(A @ B + bias, 0)")

try:
    import jax
    import jax.numpy as jnp
except ImportError:
    print("no JAX here")
else:
    dense = lw.jax.kernel(op, db="layer.db", threads=1)
    step = jax.jit(lambda a, b, c: jnp.sum(dense(a, b, c)))
    assert np.isclose(step(A, B, bias), wanted.sum(), rtol=1e-4)
    print("JAX: the same, within a jit")
