"""Kernels as functions of tvm-ffi."""

import numpy as np
import pytest

import loopwright as lw

tvm_ffi = pytest.importorskip("tvm_ffi")


@pytest.fixture(scope="module")
def modules(untuned, packed_kernel, tmp_path_factory):
    """module(kernel): its library, loaded by tvm-ffi."""
    folder = tmp_path_factory.mktemp("tvm_ffi")

    def load(kernel):
        files = kernel.export(folder / kernel.digest[:8], tvm_ffi=True)
        return tvm_ffi.load_module(files[-1])
    return load


def tensors(*arrays):
    return [tvm_ffi.from_dlpack(array) for array in arrays]


def test_calls_it_on_arrays(modules, untuned):
    dense = modules(untuned("dense_relu", M=8, N=32, K=16))
    generator = np.random.default_rng(1)
    a, b, bias = (generator.standard_normal(s).astype(np.float32) for s in ((8, 16), (16, 32), (32,)))
    out = np.zeros((8, 32), np.float32)
    dense.dense_relu(*tensors(a, b, bias, out))
    assert np.allclose(out, np.maximum(a @ b + bias, 0), atol=1e-5)


def test_packs_and_has_a_workspace(modules, untuned, packed_kernel):
    kernel, want, arrays = packed_kernel
    out = np.zeros(want.shape, np.float32)
    modules(kernel).dense(*tensors(arrays["A"], arrays["B"], out))
    assert np.allclose(out, want, atol=1e-4)
    soft = untuned("softmax", M=4, N=100)
    assert soft.workspace_bytes > 0
    x, y = np.random.default_rng(0).standard_normal((2, 4, 100)).astype(np.float32)
    modules(soft).softmax(*tensors(x, y))
    assert np.allclose(y, soft(x), atol=1e-6)


def test_refuses_by_name(modules, untuned):
    add = modules(untuned("add", N=16)).add
    x = np.zeros(16, np.float32)
    y = np.zeros(16, np.float32)
    wide = np.zeros(32, np.float32)
    for given, text in (((x, x), "takes its inputs and then its results"),
                        ((x, x[:8], y), "B is of another shape"),
                        ((x, x.reshape(4, 4), y), "B is of another rank"),
                        ((x.astype(np.float64), x, y), "A is of another type"),
                        ((wide[::2], x, y), "A is not contiguous"),
                        ((x, x, x), "C overlaps another argument")):
        with pytest.raises(ValueError, match="add: " + text):
            add(*tensors(*given))
    with pytest.raises(ValueError, match="add: A is no tensor"):
        add(1, *tensors(x, y))


def test_the_library_is_also_a_plain_one(modules, untuned, tmp_path):
    files = untuned("add", N=16).export(tmp_path, tvm_ffi=True)
    x = np.ones(16, np.float32)
    assert np.array_equal(lw.load(files[-1])(x, x), 2 * x)


def test_without_a_compiler_it_says_so(untuned, tmp_path, monkeypatch):
    monkeypatch.setenv("CC", str(tmp_path / "none"))
    with pytest.raises(lw.EnvironmentFailed, match="no C compiler for"):
        untuned("add", N=16).export(tmp_path, tvm_ffi=True)
