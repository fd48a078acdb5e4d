"""cuBLASLt's matrix product with the fastest of the algorithms that its heuristics offer.

torch.mm takes the first of them; the bar of a matrix product is the best (32 MiB of workspace, as
NVIDIA advises for Hopper). The library is the one that torch has loaded; numbers below are those of
cublasLt.h, cublas_api.h and library_types.h of CUDA 13.
"""
import ctypes
import math
import statistics

import torch

OFFERED = 8                                # algorithms asked for, each timed
WORKSPACE = 32 << 20
TYPES = {torch.float32: 0, torch.float16: 2, torch.int8: 3, torch.int32: 10, torch.bfloat16: 14}
COMPUTE = {"f32": 68, "tf32": 77, "i32": 72, "bf16x9": 78}
EPILOGUES = {"none": 1, "bias": 4, "bias_gelu": 36}


class Heuristic(ctypes.Structure):
    _fields_ = [("algorithm", ctypes.c_uint64 * 8), ("workspace", ctypes.c_size_t),
                ("state", ctypes.c_int), ("waves", ctypes.c_float), ("reserved", ctypes.c_int * 4)]


def check(status, what):
    if status != 0:
        raise RuntimeError(f"{what}: cuBLAS status {status}")


class Library:
    """The handle and the workspace that all products share. One stream at a time."""

    def __init__(self):
        self.so = ctypes.CDLL("libcublasLt.so.13")
        self.handle = ctypes.c_void_p()
        check(self.so.cublasLtCreate(ctypes.byref(self.handle)), "create")
        self.workspace = torch.empty(WORKSPACE, dtype=torch.uint8, device="cuda")

    def version(self):
        self.so.cublasLtGetVersion.restype = ctypes.c_size_t
        return self.so.cublasLtGetVersion()


library = None


def shared_library():
    global library
    library = library or Library()
    return library


class Product:
    """D[m, n] = epilogue(A[m, k] B + C), row by row; B is [n, k] (`transposed`) or [k, n].

    Called with (a, b), (a, b, bias) or (a, b, bias, residual); a leading dimension is a batch. The
    first call asks for the algorithms and times them on its operands.
    """

    def __init__(self, out, compute="f32", transposed=True, epilogue="none", residual=False):
        self.out, self.compute, self.transposed = out, compute, transposed
        self.epilogue, self.residual = epilogue, residual
        self.algorithm, self.detail = None, {}

    def __call__(self, a, b, bias=None, residual=None):
        if self.algorithm is None:
            self.choose(a, b, bias, residual)
        return self.launch(a, b, bias, residual, self.algorithm)

    def layout(self, kind, rows, columns, batch):
        so, made = shared_library().so, ctypes.c_void_p()
        check(so.cublasLtMatrixLayoutCreate(ctypes.byref(made), kind, ctypes.c_uint64(rows),
                                            ctypes.c_uint64(columns), ctypes.c_int64(rows)), "layout")
        if batch > 1:
            for key, value in ((5, ctypes.c_int32(batch)), (6, ctypes.c_int64(rows * columns))):
                check(so.cublasLtMatrixLayoutSetAttribute(made, key, ctypes.byref(value),
                                                          ctypes.c_size_t(ctypes.sizeof(value))), "batch")
        return made

    def describe(self, a, b):
        """Row-major D = A B is, column by column, D' = B' A'."""
        so = shared_library().so
        self.m, self.k = a.shape[-2:]
        self.n = b.shape[-2] if self.transposed else b.shape[-1]
        batch = math.prod(a.shape[:-2])
        self.shape = (*a.shape[:-2], self.m, self.n)
        whole = self.compute == "i32"
        scale = ctypes.c_int32 if whole else ctypes.c_float
        self.one, self.zero = scale(1), scale(0)
        self.operation = ctypes.c_void_p()
        check(so.cublasLtMatmulDescCreate(ctypes.byref(self.operation), COMPUTE[self.compute],
                                          10 if whole else 0), "operation")
        self.set(3, ctypes.c_int32(1 if self.transposed else 0))
        self.set(7, ctypes.c_int32(EPILOGUES[self.epilogue]))
        kind = TYPES[a.dtype]
        self.of_b = self.layout(kind, *((self.k, self.n) if self.transposed else (self.n, self.k)), batch)
        self.of_a = self.layout(kind, self.k, self.m, batch)
        self.of_d = self.layout(TYPES[self.out], self.n, self.m, batch)

    def set(self, key, value):
        check(shared_library().so.cublasLtMatmulDescSetAttribute(
            self.operation, key, ctypes.byref(value), ctypes.c_size_t(ctypes.sizeof(value))), "attribute")

    def choose(self, a, b, bias, residual):
        shared = shared_library()
        self.describe(a, b)
        if bias is not None and self.epilogue != "none":
            self.set(8, ctypes.c_uint64(bias.data_ptr()))
        wanted = ctypes.c_void_p()
        check(shared.so.cublasLtMatmulPreferenceCreate(ctypes.byref(wanted)), "preference")
        limit = ctypes.c_uint64(WORKSPACE)
        check(shared.so.cublasLtMatmulPreferenceSetAttribute(wanted, 1, ctypes.byref(limit),
                                                             ctypes.c_size_t(8)), "workspace")
        offered, count = (Heuristic * OFFERED)(), ctypes.c_int()
        check(shared.so.cublasLtMatmulAlgoGetHeuristic(
            shared.handle, self.operation, self.of_b, self.of_a, self.of_d, self.of_d, wanted, OFFERED,
            offered, ctypes.byref(count)), "no algorithm")
        rivals = {}
        for index in range(count.value):
            try:
                rivals[index] = [self.seconds(offered[index], 2, a, b, bias, residual)]
            except RuntimeError:
                continue
        if not rivals:
            raise RuntimeError("no algorithm ran")
        for _ in range(7):                 # in turns, as power and clock move meanwhile
            for index, times in rivals.items():
                calls = max(1, min(20, math.ceil(5e-4 / times[0])))
                times.append(self.seconds(offered[index], calls, a, b, bias, residual))
        median = {index: statistics.median(times[1:]) for index, times in rivals.items()}
        best = min(median, key=median.get)
        self.algorithm = offered[best]
        self.detail = {"offered": count.value, "chosen": best,
                       "first_over_best": round(median[min(median)] / median[best], 3)}

    def seconds(self, algorithm, calls, a, b, bias, residual):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(calls):
            self.launch(a, b, bias, residual, algorithm)
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / calls * 1e-3

    def launch(self, a, b, bias, residual, algorithm):
        shared = shared_library()
        d = torch.empty(self.shape, dtype=self.out, device="cuda")
        if bias is not None and self.epilogue != "none":
            self.set(8, ctypes.c_uint64(bias.data_ptr()))
        c = residual if self.residual else d
        check(shared.so.cublasLtMatmul(
            shared.handle, self.operation, ctypes.byref(self.one), ctypes.c_void_p(b.data_ptr()), self.of_b,
            ctypes.c_void_p(a.data_ptr()), self.of_a,
            ctypes.byref(self.one if self.residual else self.zero), ctypes.c_void_p(c.data_ptr()), self.of_d,
            ctypes.c_void_p(d.data_ptr()), self.of_d, ctypes.byref(algorithm.algorithm),
            ctypes.c_void_p(shared.workspace.data_ptr()), ctypes.c_size_t(WORKSPACE),
            ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)), "product")
        return d
