"""Every operator of the library through the wheel, against NumPy."""
import importlib.util
import os

import numpy as np
import pytest

import loopwright as lw
from conftest import SOURCE
from loopwright import program


def numpy_ops():
    """The definitions that the reference interpreter is compared with."""
    spec = importlib.util.spec_from_file_location(
        "check_ops", os.path.join(SOURCE, "tests", "numpy", "check_ops.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


NUMPY = numpy_ops()
# No extent is a multiple of a vector, or of another.
SMALL = {"M": 13, "N": 37, "K": 29, "H": 9, "W": 7, "L": 19, "B": 2, "S": 11, "D": 5, "A": 5, "V": 41,
         "CI": 8, "CO": 12, "C": 11, "Q": 3, "T": 10}
KEPT = {"R", "stride", "pad", "dilation", "groups", "zp", "lo", "hi", "eps", "type"}


def small(op):
    """Its parameters, extents small."""
    parameters = {}
    for name, text in op["parameters"].items():
        value = NUMPY.number(text)
        if name == "S" and "R" in op["parameters"] or not isinstance(value, int):
            continue                       # a window's, or a type
        if name not in KEPT:
            parameters[name] = min(value, SMALL[name])
    return parameters


def values(arg, generator, limit):
    dtype = NUMPY.TYPES[arg.dtype]
    if arg.dtype in ("f32", "f64"):
        return generator.uniform(-1, 1, arg.shape).astype(dtype)
    low = 0 if arg.dtype == "u8" or limit else -9
    return generator.integers(low, limit or 10, arg.shape).astype(dtype)


def expect_close(got, want, dtype):
    want = np.asarray(want)
    assert got.shape == want.shape
    if got.dtype.kind != "f":
        assert np.array_equal(got, want.astype(got.dtype))
        return
    tolerance = NUMPY.EPSILON[dtype] * 4   # kernels add in another order than the interpreter
    assert np.allclose(got.astype(np.float64), want, rtol=tolerance, atol=tolerance)


LIBRARY = {op["name"]: op for op in program.run(["ops"])}


def test_numpy_defines_the_library():
    assert set(LIBRARY) == set(NUMPY.OPS)


@pytest.mark.parametrize("name", sorted(LIBRARY))
def test_agrees_with_numpy(name, untuned):
    kernel = untuned(name, **small(LIBRARY[name]))
    generator = np.random.default_rng(7)
    limit = SMALL["V"] if name == "gather_rows" else 0
    inputs = [values(arg, generator, limit if arg.dtype == "i32" else 0)
              for arg in kernel.args if arg.role == "in"]
    parameters = {key: NUMPY.number(text) for key, text in LIBRARY[name]["parameters"].items()}
    parameters |= small(LIBRARY[name])
    wide = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in inputs]
    want = NUMPY.OPS[name](parameters, *wide)
    result = kernel.args[-1]
    expect_close(kernel(*inputs), want, result.dtype)

    given = dict(zip(kernel.inputs, inputs))
    constant = {arg.name: given[arg.name] for arg in kernel.args if arg.const}
    rest = [given[arg.name] for arg in kernel.args if arg.role == "in" and not arg.const]
    if constant:
        bound = kernel.bind(**constant)
        expect_close(bound(*rest), want, result.dtype)


def test_bf16_comes_as_ml_dtypes_and_as_bits(untuned):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    kernel = untuned("matmul", M=13, N=37, K=29, T="bf16")
    generator = np.random.default_rng(3)
    a, b = (generator.uniform(-1, 1, shape).astype(ml_dtypes.bfloat16)
            for shape in ((13, 29), (29, 37)))
    got = kernel(a, b)
    assert got.dtype == np.float32
    assert np.allclose(got, a.astype(np.float32) @ b.astype(np.float32), rtol=1e-5, atol=1e-5)
    assert np.array_equal(kernel(a.view(np.uint16), b.view(np.uint16)), got)
    assert np.array_equal(untuned("relu", N=50, T="bf16")(a.ravel()[:50]),
                          np.maximum(a.ravel()[:50], 0))


def test_f16(untuned):
    x = np.linspace(-2, 2, 37, dtype=np.float16)
    got = untuned("relu", N=37, T="f16")(x)
    assert got.dtype == np.float16
    assert np.array_equal(got, np.maximum(x, 0))
