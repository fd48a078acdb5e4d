#!/usr/bin/env python3
"""A program of ../workloads/fused.te by an array library, for who times it beside ours.

  peer.py xla|inductor|eager PROGRAM FOLDER [--isa AVX2]

FOLDER holds the inputs, one after the other as `N.TYPE.EXTENTxEXTENT`, raw and row-major. Says
`ready VERSION` once it is compiled; then to each line `time N` the seconds of N calls, and to
`results` the results' bytes, one after the other. Runs on one thread.
"""
import argparse
import os
import pathlib
import sys
import time

import programs


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("library", choices=["xla", "inductor", "eager"])
    parser.add_argument("program")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--isa", help="the widest instructions that it may use (AVX2)")
    return parser.parse_args()


def load_inputs(folder):
    import numpy as np
    arrays = []
    for path in sorted(folder.iterdir(), key=lambda p: int(p.name.split(".")[0])):
        _, kind, extents = path.name.split(".")
        shape = [int(e) for e in extents.split("x") if e]
        arrays.append(np.fromfile(path, {"f32": np.float32, "i32": np.int32}[kind]).reshape(shape))
    return arrays


def xla(args):
    """(version, calls, results): `calls(n)` runs n times to the end."""
    flags = ["--xla_cpu_multi_thread_eigen=false", "intra_op_parallelism_threads=1"]
    if args.isa:
        flags.append(f"--xla_cpu_max_isa={args.isa}")
    os.environ["XLA_FLAGS"] = " ".join(flags)
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax
    import numpy as np
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    names, inputs = programs.jax_names(), [jax.device_put(a) for a in load_inputs(args.folder)]
    define = getattr(programs, args.program)
    compiled = jax.jit(lambda *arrays: define(names, *arrays))

    def calls(n):
        for _ in range(n):
            last = compiled(*inputs)
        jax.block_until_ready(last)

    def results():
        return [np.asarray(r) for r in jax.tree.leaves(compiled(*inputs))]

    return jax.__version__, calls, results


def torch(args):
    if args.isa:
        os.environ["ATEN_CPU_CAPABILITY"] = args.isa.lower()
        os.environ["ONEDNN_MAX_CPU_ISA"] = os.environ["MKL_ENABLE_INSTRUCTIONS"] = args.isa
    import torch as library
    library.set_num_threads(1)
    names = programs.torch_names()
    inputs = [library.from_numpy(a) for a in load_inputs(args.folder)]
    define = getattr(programs, args.program)

    def run(*arrays):
        return define(names, *arrays)

    if args.library == "inductor":
        if args.isa:
            import torch._inductor.config as inductor
            inductor.cpp.simdlen = {"AVX2": 256}[args.isa]
        run = library.compile(run, dynamic=False)

    def results():
        with library.inference_mode():
            found = run(*inputs)
        return [r.numpy() for r in (found if isinstance(found, tuple) else (found,))]

    def calls(n):
        with library.inference_mode():
            for _ in range(n):
                run(*inputs)

    return library.__version__, calls, results


def main():
    args = options()
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)                          # what libraries print is no reply
    version, calls, results = xla(args) if args.library == "xla" else torch(args)
    calls(1)
    replies.write(f"ready {version}\n".encode())
    replies.flush()
    for line in sys.stdin:
        word, *numbers = line.split()
        if word == "time":
            begin = time.perf_counter()
            calls(int(numbers[0]))
            replies.write(f"{time.perf_counter() - begin:.9f}\n".encode())
        elif word == "results":
            for r in results():
                replies.write(r.tobytes())
        replies.flush()


main()
