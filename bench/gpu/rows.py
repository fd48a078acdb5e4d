"""The rows of the table: what is computed, on what, and by whom.

A row's first peer is the reference that the others are compared with. Rows of a lower `order` are
timed first, so that a run cut short still has the most important.
"""
import dataclasses
import math
from typing import Callable

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import cublaslt
import triton_kernels

BF16, F16, F32, I8, I32 = torch.bfloat16, torch.float16, torch.float32, torch.int8, torch.int32
SHORT = {BF16: "bf16", F16: "f16", F32: "f32", I8: "int8"}


@dataclasses.dataclass
class Row:
    group: str
    name: str
    order: int
    make: Callable                         # one set of random operands
    peers: dict                            # name -> function of a set
    flop: float = 0                        # of one call
    bytes: float = 0                       # compulsory: operands read once, results written once
    peak: str = ""                         # whose peak the flop are held against
    copy: bool = False                     # a copy that moves as many bytes is a contender
    regimes: tuple = ("cold",)
    sample_ms: float = 4
    ours: dict = dataclasses.field(default_factory=dict)  # name -> words of ours.te, room for the result


def normal(*shape, dtype=BF16):
    if dtype == I8:
        return torch.randint(-8, 9, shape, dtype=I8, device="cuda")
    return torch.randn(*shape, dtype=F32, device="cuda").to(dtype)


def room(*shape, dtype=BF16):
    return lambda: torch.empty(*shape, dtype=dtype, device="cuda")


def pictures(images, channels, height, width):
    return lambda: torch.empty(images, channels, height, width, dtype=BF16, device="cuda",
                               memory_format=torch.channels_last)


def compiled(function, mode=None):
    return torch.compile(function, mode=mode, dynamic=False)


def with_tf32(allowed):
    def product(a, b):
        torch.backends.cuda.matmul.allow_tf32 = allowed
        try:
            return torch.mm(a, b)
        finally:
            torch.backends.cuda.matmul.allow_tf32 = False
    return product


# --- matrix products ----------------------------------------------------------------------------

def gemm(m, n, k, dtype, order, tf32=False):
    """B is [k, n], as matmul.te has it; the result is of the operands' type."""
    size = dtype.itemsize
    compute = "tf32" if tf32 else "f32"
    peers = {"torch.mm": with_tf32(tf32) if dtype == F32 else torch.mm,
             "cuBLASLt best of 8": cublaslt.Product(dtype, compute, transposed=False),
             "cuBLASLt, B [n, k]": Transposed(cublaslt.Product(dtype, compute, transposed=True))}
    if dtype == F32 and not tf32:
        peers["cuBLASLt, f32 as 9 bf16"] = cublaslt.Product(F32, "bf16x9", transposed=False)
    if dtype == BF16:
        peers["cuBLASLt, f32 result"] = cublaslt.Product(F32, compute, transposed=False)
    extents = f"M={m} N={n} K={k} T={SHORT[dtype]}"
    own = {} if tf32 else {"Loopwright": (f"gemm {extents}", room(m, n, dtype=dtype))}
    if dtype == BF16:
        own["Loopwright, f32 result"] = (f"gemm_wide {extents}", room(m, n, dtype=F32))
    total = size * (m * k + k * n + m * n)
    return Row("gemm", f"{'tf32' if tf32 else SHORT[dtype]} {m}x{n}x{k}", order,
               lambda: (normal(m, k, dtype=dtype), normal(k, n, dtype=dtype)), peers, 2.0 * m * n * k,
               total, "tf32" if tf32 else SHORT[dtype],
               regimes=("cold", "warm") if total < 2 * 50e6 else ("cold",), sample_ms=20, ours=own)


class Transposed:
    """A product that wants B as [n, k]: laid out anew before the clock, once for each B."""

    def __init__(self, product):
        self.product, self.packed = product, {}
        self.detail = product.detail

    def __call__(self, a, b):
        key = b.data_ptr()
        if key not in self.packed:
            self.packed[key] = b.t().contiguous()
        out = self.product(a, self.packed[key])
        self.detail = self.product.detail
        return out


def int8_gemm(m, n, k, order):
    """s8 by s8 to s32, B as [n, k] (what IMMA and wgmma read). _int_mm takes multiples of 8 only:
    else the operands are padded, which is timed too."""
    up = [math.ceil(d / 8) * 8 for d in (m, n, k)]

    def padded(a, b):
        if up == [m, n, k]:
            return torch._int_mm(a, b.t())
        a = F.pad(a, (0, up[2] - k, 0, up[0] - m))
        b = F.pad(b, (0, up[2] - k, 0, up[1] - n))
        return torch._int_mm(a, b.t())[:m, :n]

    peers = {"torch._int_mm" + ("" if up == [m, n, k] else ", padded"): padded,
             "cuBLASLt best of 8": cublaslt.Product(I32, "i32")}
    total = m * k + k * n + 4 * m * n
    return Row("gemm", f"int8 {m}x{n}x{k}", order, lambda: (normal(m, k, dtype=I8), normal(n, k, dtype=I8)),
               peers, 2.0 * m * n * k, total, "int8",
               regimes=("cold", "warm") if total < 2 * 50e6 else ("cold",), sample_ms=15,
               ours={"Loopwright": (f"gemm_i8 M={m} N={n} K={k}", room(m, n, dtype=I32))})


def batch(count, m, n, k, dtype, order):
    out, compute = (I32, "i32") if dtype == I8 else (dtype, "f32")
    peers = {"cuBLASLt best of 8": cublaslt.Product(out, compute)}
    if dtype != I8:
        peers = {"torch.bmm": lambda a, b: torch.bmm(a, b.transpose(1, 2)), **peers}
    total = count * ((m * k + n * k) * dtype.itemsize + m * n * out.itemsize)
    extents = f"B={count} M={m} N={n} K={k}"
    return Row("gemm", f"{SHORT[dtype]} batch {count}: {m}x{n}x{k}", order,
               lambda: (normal(count, m, k, dtype=dtype), normal(count, n, k, dtype=dtype)), peers,
               2.0 * count * m * n * k, total, SHORT[dtype], regimes=("cold", "warm"),
               ours={"Loopwright": (f"batch_i8 {extents}" if dtype == I8 else
                                    f"batch {extents} T={SHORT[dtype]}",
                                    room(count, m, n, dtype=out))})


def thin(m, n, k, order):
    peers = {"torch linear": F.linear, "cuBLASLt best of 8": cublaslt.Product(BF16),
             "cuBLASLt, B [k, n]": Transposed(cublaslt.Product(BF16, transposed=False))}
    return Row("thin", f"bf16 M={m}, {n}x{k}", order, lambda: (normal(m, k), normal(n, k)), peers,
               2.0 * m * n * k, 2.0 * (m * k + n * k + m * n), "bf16", copy=True,
               ours={"Loopwright": (f"linear M={m} N={n} K={k}", room(m, n))})


def dense(m, n, k, residual, order):
    if residual:
        def eager(x, w, b, r):
            return F.linear(x, w, b) + r
        product = cublaslt.Product(BF16, epilogue="bias", residual=True)
    else:
        def eager(x, w, b):
            return F.gelu(F.linear(x, w, b), approximate="tanh")
        product = cublaslt.Product(BF16, epilogue="bias_gelu")
    peers = {"torch eager": eager, "cuBLASLt epilogue": product, "torch.compile": compiled(eager),
             "torch.compile max-autotune": compiled(eager, "max-autotune-no-cudagraphs")}
    more = (lambda: (normal(m, n),)) if residual else (lambda: ())
    return Row("dense", f"bf16 {m}x{n}x{k} + bias {'+ residual' if residual else '+ GELU'}", order,
               lambda: (normal(m, k), normal(n, k) * k ** -0.5, normal(n), *more()), peers,
               2.0 * m * n * k, 2.0 * (m * k + n * k + n + m * n * (2 if residual else 1)), "bf16",
               sample_ms=10,
               ours={"Loopwright": (f"linear_{'residual' if residual else 'gelu'} M={m} N={n} K={k}",
                                    room(m, n))})


# --- rows, reductions, transposes ---------------------------------------------------------------

def by_rows(kind, rows, n, order):
    def rms(x, g):
        return F.rms_norm(x, (n,), g, 1e-5)

    def norm(x, g, b):
        return F.layer_norm(x, (n,), g, b, 1e-5)

    def soft(x):
        return F.softmax(x, -1)

    eager, one_pass, vectors = {"softmax": (soft, triton_kernels.softmax, 0),
                                "layer norm": (norm, triton_kernels.layer_norm, 2),
                                "RMSNorm": (rms, triton_kernels.rms_norm, 1)}[kind]
    return Row("rows", f"{kind} bf16 {rows}x{n}", order,
               lambda: (normal(rows, n), *(normal(n) for _ in range(vectors))),
               {"torch eager": eager, "torch.compile": compiled(eager, "max-autotune-no-cudagraphs"),
                "Triton": one_pass}, bytes=4.0 * rows * n + 2 * n * vectors, copy=True,
               ours={"Loopwright": (f"{kind.lower().replace(' ', '_').replace('rmsnorm', 'rms_norm')} "
                                    f"M={rows} N={n}", room(rows, n))})


def reduction(name, shape, axes, dtype, order):
    def total(x):
        return torch.sum(x, axes) if axes is not None else torch.sum(x)
    own = {}
    if axes is not None:
        op = "row_sum" if axes == 1 else "column_sum"
        own["Loopwright"] = (f"{op} M={shape[0]} N={shape[1]} T={SHORT[dtype]}",
                             room(shape[1 - axes], dtype=dtype))
    return Row("reduce", f"sum {name} {SHORT[dtype]} {'x'.join(map(str, shape))}", order,
               lambda: (normal(*shape, dtype=dtype) + 1,),
               {"torch eager": total, "torch.compile": compiled(total, "max-autotune-no-cudagraphs")},
               bytes=float(math.prod(shape)) * dtype.itemsize, copy=True, ours=own)


def transpose(shape, order_of, dtype, order):
    def moved(x):
        return x.permute(order_of).contiguous()
    if len(shape) == 4:
        words = f"heads_to_front B={shape[0]} S={shape[1]} H={shape[2]} D={shape[3]}"
    else:
        words = f"transpose B={shape[0] if len(shape) == 3 else 1} M={shape[-2]} N={shape[-1]}"
    result = [shape[d] for d in order_of]
    return Row("transpose", f"transpose {SHORT[dtype]} {'x'.join(map(str, shape))} to "
               f"{','.join(map(str, order_of))}", order, lambda: (normal(*shape, dtype=dtype),),
               {"torch eager": moved, "torch.compile": compiled(moved, "max-autotune-no-cudagraphs")},
               bytes=2.0 * math.prod(shape) * dtype.itemsize, copy=True,
               ours={"Loopwright": (f"{words} T={SHORT[dtype]}", room(*result, dtype=dtype))})


# --- attention ----------------------------------------------------------------------------------

def attention(d, s, causal, order):
    """16 Ki tokens and a width of 2048, as FlashAttention-3's published rows."""
    count, heads = 16384 // s, 2048 // d

    def make():
        return tuple(normal(count, s, heads, d).transpose(1, 2) for _ in range(3))

    def by(backend):
        def run(q, k, v):
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return run

    return Row("attention", f"bf16 d={d} S={s}{' causal' if causal else ''}", order, make,
               {"SDPA flash": by(SDPBackend.FLASH_ATTENTION), "SDPA cuDNN": by(SDPBackend.CUDNN_ATTENTION)},
               flop=4.0 * 16384 * s * 2048 / (2 if causal else 1), bytes=4.0 * 2 * 16384 * 2048,
               peak="bf16", sample_ms=8,
               ours={"Loopwright": (f"{'causal_' if causal else ''}attention B={count} S={s} H={heads} "
                                    f"D={d}", lambda: room(count, s, heads, d)().transpose(1, 2))})


# --- convolutions -------------------------------------------------------------------------------

# (name, image, in, out, kernel, stride): those of ResNet-50 v1.5 that differ.
RESNET = [("stem", 224, 3, 64, 7, 2), ("2 reduce first", 56, 64, 64, 1, 1), ("2 3x3", 56, 64, 64, 3, 1),
          ("2 expand", 56, 64, 256, 1, 1), ("2 reduce", 56, 256, 64, 1, 1),
          ("3 reduce first", 56, 256, 128, 1, 1), ("3 3x3/2", 56, 128, 128, 3, 2),
          ("3 expand", 28, 128, 512, 1, 1), ("3 shortcut", 56, 256, 512, 1, 2),
          ("3 reduce", 28, 512, 128, 1, 1), ("3 3x3", 28, 128, 128, 3, 1),
          ("4 reduce first", 28, 512, 256, 1, 1), ("4 3x3/2", 28, 256, 256, 3, 2),
          ("4 expand", 14, 256, 1024, 1, 1), ("4 shortcut", 28, 512, 1024, 1, 2),
          ("4 reduce", 14, 1024, 256, 1, 1), ("4 3x3", 14, 256, 256, 3, 1),
          ("5 reduce first", 14, 1024, 512, 1, 1), ("5 3x3/2", 14, 512, 512, 3, 2),
          ("5 expand", 7, 512, 2048, 1, 1), ("5 shortcut", 14, 1024, 2048, 1, 2),
          ("5 reduce", 7, 2048, 512, 1, 1), ("5 3x3", 7, 512, 512, 3, 1)]
DEPTHWISE = [(112, 32, 1), (56, 144, 1), (56, 144, 2), (28, 192, 1), (14, 576, 1), (7, 960, 1)]


def convolution(name, images, image, inner, outer, kernel, stride, order, groups=1):
    result = (image + 2 * (kernel // 2) - kernel) // stride + 1
    taps = kernel * kernel * inner // groups

    def make():
        nhwc = torch.channels_last
        return (normal(images, inner, image, image).to(memory_format=nhwc),
                (normal(outer, inner // groups, kernel, kernel) * taps ** -0.5).to(memory_format=nhwc))

    def run(x, w):
        return F.conv2d(x, w, stride=stride, padding=kernel // 2, groups=groups)

    pixels = images * result * result
    return Row("depthwise" if groups > 1 else "conv",
               f"bf16 batch {images}: {name} {image}x{image} {inner}->{outer} {kernel}x{kernel}/{stride}",
               order, make, {"torch (cuDNN benchmark)" if groups > 1 else "cuDNN benchmark": run},
               2.0 * pixels * outer * taps,
               2.0 * (images * image * image * inner + outer * taps + pixels * outer),
               "" if groups > 1 else "bf16", copy=groups > 1,
               ours={"Loopwright": (f"{'depthwise' if groups > 1 else 'conv2d'} N={images} H={image} "
                                    f"W={image} {f'C={inner}' if groups > 1 else f'CI={inner} CO={outer}'} "
                                    f"R={kernel} stride={stride} pad={kernel // 2}",
                                    pictures(images, outer, result, result))})


def all_rows():
    rows = [gemm(n, n, n, BF16, 0) for n in (8192, 4096, 2048)]
    rows += [gemm(8192, 8192, 8192, F16, 0), gemm(4096, 4096, 4096, F16, 1), gemm(2048, 2048, 2048, F16, 1)]
    rows += [gemm(4096, 4096, 4096, F32, 0, tf32=True), gemm(4096, 4096, 4096, F32, 0)]
    rows += [int8_gemm(8192, 8192, 8192, 0), int8_gemm(4095, 4097, 4099, 1), int8_gemm(1000, 1000, 1000, 1),
             gemm(4095, 4097, 4099, BF16, 1), gemm(1000, 1000, 1000, BF16, 1)]
    for dtype in (BF16, I8):
        rows += [batch(12, 512, 512, 64, dtype, 1), batch(12, 512, 64, 512, dtype, 1)]
    rows += [thin(m, n, k, order) for n, k, order in ((8192, 8192, 0), (28672, 8192, 1), (8192, 28672, 1))
             for m in (1, 8, 16, 64)]
    rows += [attention(d, s, causal, {128: 0, 64: 1}[d]) for d in (128, 64)
             for causal in (False, True) for s in (512, 1024, 2048, 4096, 8192, 16384)]
    for kind in ("softmax", "layer norm", "RMSNorm"):
        rows += [by_rows(kind, m, n, order) for m, n, order in
                 ((4096, 1024, 1), (8192, 8192, 0), (4096, 32768, 1), (16384, 32768, 2))]
    rows += [reduction("over columns", (8192, 8192), 1, F32, 1),
             reduction("over rows", (8192, 8192), 0, F32, 1),
             reduction("of all", (8192, 8192), None, F32, 1),
             reduction("over columns", (16384, 8192), 1, BF16, 1)]
    rows += [transpose((8192, 8192), (1, 0), F32, 1), transpose((8192, 8192), (1, 0), BF16, 1),
             transpose((64, 256, 3136), (0, 2, 1), BF16, 1),
             transpose((16, 1024, 16, 128), (0, 2, 1, 3), BF16, 2)]
    rows += [dense(4096, 16384, 4096, False, 1), dense(4096, 4096, 16384, True, 1),
             dense(512, 3072, 768, False, 2)]
    rows += [convolution(one[0], images, *one[1:], order)
             for images, order in ((16, 1), (128, 1), (1, 2)) for one in RESNET]
    rows += [convolution("depthwise", images, image, c, c, 3, stride, 1 if images == 16 else 2, c)
             for images in (16, 128, 1) for image, c, stride in DEPTHWISE]
    return sorted(rows, key=lambda row: row.order)
