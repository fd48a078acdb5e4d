#!/usr/bin/env python3
"""What a call from Python costs beside the kernel: each way of calling a kernel that does nothing,
interleaved with the others, in nanoseconds; the median of rounds and their middle half.

    python bench/python/calls.py            # in an environment with the wheel, NumPy and a C compiler
"""
import ctypes
import os
import statistics
import subprocess
import tempfile
import time

import numpy as np

import loopwright as lw

ROUNDS, CALLS = 41, 20000
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NOTHING = """
#include "loopwright/context.h"
static int32_t run(const lw_context* c, void* const* b) { (void)c; (void)b; return 0; }
static const int64_t shape[] = {8, 8};
static const lw_argument arguments[] = {{"A", "f32", shape, 2, 4, 256, 4},
  {"B", "f32", shape, 2, 4, 256, 4}, {"C", "f32", shape, 2, 1, 256, 4}};
const lw_kernel loopwright_kernel = {LOOPWRIGHT_ABI, 3, arguments, "nothing", run, 0, 0, 0, 0, 1, "",
                                     "d", "{}"};
"""


def compiled(folder):
    source, library = os.path.join(folder, "nothing.c"), os.path.join(folder, "nothing.so")
    with open(source, "w") as file:
        file.write(NOTHING)
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", f"-I{ROOT}/include", "-o", library, source],
                   check=True)
    return library


def per_call(function):
    start = time.perf_counter_ns()
    for _ in range(CALLS):
        function()
    return (time.perf_counter_ns() - start) / CALLS


class Dlpack:
    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = compiled(folder)
        kernel = lw.load(path)
        a, b, c = (np.zeros((8, 8), np.float32) for _ in range(3))
        bound = kernel.bind(B=b)
        lent = [Dlpack(x) for x in (a, b, c)]
        ways = {"nothing at all": lambda: None,
                "k(A, B, out=C)": lambda: kernel(a, b, out=c),
                "k(A, B)": lambda: kernel(a, b),
                "k.bind(B=B)(A, out=C)": lambda: bound(a, out=c),
                "k(A, B, out=C) by __dlpack__": lambda: kernel(*lent[:2], out=lent[2]),
                "numpy.add(A, B, out=C)": lambda: np.add(a, b, out=c),
                "three memoryviews of arrays": lambda: (memoryview(a), memoryview(b), memoryview(c)),
                "ctypes, of three known addresses": None}
        library = ctypes.CDLL(path)
        addresses = (ctypes.c_void_p * 3)(*(x.ctypes.data for x in (a, b, c)))
        table = ctypes.cast(ctypes.addressof(ctypes.c_char.in_dll(library, "loopwright_kernel")),
                            ctypes.POINTER(ctypes.c_void_p))
        # The table's fifth word is the function (context.h).
        run = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(table[3])
        ways["ctypes, of three known addresses"] = lambda: run(None, addresses)
        times = {name: [] for name in ways}
        for function in ways.values():
            function()
        for _ in range(ROUNDS):
            for name, function in ways.items():
                times[name].append(per_call(function))
        for name, samples in times.items():
            low, middle, high = statistics.quantiles(samples, n=4)
            print(f"{middle:8.0f} ns  [{low:.0f}, {high:.0f}]  {name}")


if __name__ == "__main__":
    main()
