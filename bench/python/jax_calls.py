#!/usr/bin/env python3
"""What XLA's foreign function costs beside the kernel, interleaved, medians of rounds: a chain of 32
kernels in one jit against the same calls of the package, and a small kernel's jit against that of the
identity.

    python bench/python/jax_calls.py [--db lw.db]      # in an environment with the wheel and JAX
"""
import argparse
import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np

import loopwright as lw

CHAIN = 32


def microseconds(function, calls):
    start = time.perf_counter()
    for _ in range(calls):
        function()
    return (time.perf_counter() - start) / calls * 1e6


def interleaved(ways, calls, rounds):
    for function in ways.values():
        function()
    times = {name: [] for name in ways}
    for _ in range(rounds):
        for name, function in ways.items():
            times[name].append(microseconds(function, calls))
    for name, samples in times.items():
        low, middle, high = statistics.quantiles(samples, n=4)
        print(f"{middle:10.2f} us  [{low:.2f}, {high:.2f}]  {name}")
    return {name: statistics.median(samples) for name, samples in times.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--db")
    parser.add_argument("--size", type=int, default=256)
    options = parser.parse_args()
    n = options.size
    k = lw.op("matmul", M=n, N=n, K=n).kernel(db=options.db, threads=1)
    in_jax = lw.jax.kernel(k)
    a = np.eye(n, dtype=np.float32)
    memory = [np.random.default_rng(0).random((n, n), np.float32), np.empty((n, n), np.float32)]
    x, y = jnp.asarray(memory[0]), jnp.asarray(a)

    def direct():
        for i in range(CHAIN):
            k(memory[i % 2], a, out=memory[1 - i % 2])

    def chained(x, y):
        for _ in range(CHAIN):
            x = in_jax(x, y)
        return x
    program = jax.jit(chained)
    got = interleaved({f"{CHAIN} calls, matmul {n}": direct,
                       f"{CHAIN} in one jit": lambda: program(x, y).block_until_ready()}, 5, 31)
    before, after = got.values()
    print(f"  ratio {after / before:.3f}")

    small = lw.op("add", N=16).kernel(db=options.db, threads=1)
    add = jax.jit(lw.jax.kernel(small))
    identity = jax.jit(lambda p, q: p)
    p, q = jnp.ones(16), jnp.ones(16)
    got = interleaved({"jit of the identity": lambda: identity(p, q).block_until_ready(),
                       "jit of add 16": lambda: add(p, q).block_until_ready(),
                       "jit of XLA's own add": (lambda f: lambda: f(p, q).block_until_ready())(
                           jax.jit(jnp.add))}, 2000, 31)
    values = list(got.values())
    print(f"  over the identity {values[1] - values[0]:.2f} us; XLA's own {values[2] - values[0]:.2f} us")


if __name__ == "__main__":
    main()
