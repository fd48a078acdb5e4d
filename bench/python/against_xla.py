"""Functions of JAX with tuned kernels in them (lw.jax.optimize) beside XLA's own code for them. Imported
before JAX is."""
import contextlib
from typing import NamedTuple

from one_thread import all_processors  # isort: skip  (before JAX is read)

import jax
import jax.numpy as jnp
import numpy as np
from interleaved import compare

import loopwright as lw


class Result(NamedTuple):
    kernels: int                           # tasks that were tuned in time
    us: float
    xla_us: float
    ratio: float


def measure(function, shapes, options):
    """Of f32 inputs of these shapes; `options` as tuning_parser() has them."""
    generator = np.random.default_rng(0)
    inputs = [jnp.asarray(generator.uniform(-.1, .1, shape), jnp.float32) for shape in shapes]
    kernels = 0
    with all_processors():
        for op, _ in lw.jax.tasks(function, *inputs):
            with contextlib.suppress(lw.NotValid):
                lw.tune(op, seconds=options.seconds, threads=1, db=options.db)
                kernels += 1
    ours = jax.jit(lw.jax.optimize(function, db=options.db, threads=1))
    theirs = jax.jit(function)
    assert np.allclose(ours(*inputs), theirs(*inputs), rtol=1e-3, atol=1e-4)
    return Result(kernels, *compare(ours, theirs, inputs))
