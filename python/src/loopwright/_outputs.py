"""Memory for results: NumPy arrays where the caller has NumPy, else memory views."""
from __future__ import annotations

import sys

TYPE_CHECKING = False                      # errors.py says why
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_DTYPES = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "uint16", "i64": "int64",
           "i32": "int32", "i16": "int16", "i8": "int8", "u8": "uint8", "bool": "bool"}
# As struct has them; what memory views cannot show, as the bits that it is.
_FORMATS = {"f64": "d", "f32": "f", "f16": "H", "bf16": "H", "i64": "q", "i32": "i", "i16": "h",
            "i8": "b", "u8": "B", "bool": "?"}
# From here on kernels may store past the caches, which wants lines, and allocating costs much more
# than finding one.
_LARGE = 1 << 20
_LINE = 64


def has_numpy() -> bool:
    return "numpy" in sys.modules


def maker(type_name: str, shape: tuple[int, ...], size: int) -> Callable[[], Any]:
    """What allocates a result of the type and shape, `size` bytes."""
    if not has_numpy():
        form = _FORMATS[type_name]
        return lambda: memoryview(bytearray(size)).cast(form, shape)  # type: ignore[call-overload]
    from functools import partial          # which NumPy has loaded, and whose calls are the fastest

    numpy = sys.modules["numpy"]
    name = _DTYPES[type_name]
    if type_name == "bf16" and "ml_dtypes" in sys.modules:
        name = sys.modules["ml_dtypes"].bfloat16
    if size >= _LARGE:
        return partial(_aligned, numpy, numpy.dtype(name), shape, size)
    return partial(numpy.empty, shape, numpy.dtype(name))


def _aligned(numpy: Any, dtype: Any, shape: tuple[int, ...], size: int) -> Any:
    raw = numpy.empty(size + _LINE, numpy.uint8)
    start = -raw.ctypes.data % _LINE
    return raw[start:start + size].view(dtype).reshape(shape)
