"""What a call takes, gives and refuses."""
import array
import ctypes
import weakref

import numpy as np
import pytest

import loopwright as lw


@pytest.fixture
def dense(untuned):
    return untuned("dense_relu", M=8, N=32, K=16)


@pytest.fixture
def arrays():
    generator = np.random.default_rng(1)
    shapes = {"A": (8, 16), "B": (16, 32), "bias": (32,)}
    return {name: generator.standard_normal(shape).astype(np.float32)
            for name, shape in shapes.items()}


def expected(arrays):
    return np.maximum(arrays["A"] @ arrays["B"] + arrays["bias"], 0)


def test_gives_new_results_or_fills_ours(dense, arrays):
    want = expected(arrays)
    got = dense(*arrays.values())
    assert got.dtype == np.float32 and np.allclose(got, want, atol=1e-5)
    out = np.full((8, 32), 7, np.float32)
    assert dense(*arrays.values(), out=out) is out
    assert np.array_equal(out, got)
    assert np.array_equal(dense(**arrays), got)
    assert np.array_equal(dense(arrays["A"], bias=arrays["bias"], B=arrays["B"], out=None), got)


def test_says_what_it_is(dense):
    assert [str(arg) for arg in dense.args] == ["A: f32[8, 16]", "B: f32[16, 32]", "bias: f32[32]",
                                                "D: f32[8, 32]"]
    assert [arg.const for arg in dense.args] == [False, True, False, False]
    assert dense.inputs == ("A", "B", "bias")
    assert dense.outcome == "default" and dense.threads == 1
    assert len(dense.digest) == 64
    assert "dense_relu" in repr(dense)


def refused(kernel, *inputs, **named):
    with pytest.raises(lw.BadRequest) as caught:
        kernel(*inputs, **named)
    assert isinstance(caught.value, ValueError) and caught.value.code == 1
    return str(caught.value)


def test_names_the_argument_that_is_wrong(dense, arrays):
    a, b, bias = arrays.values()
    assert refused(dense, a, b.astype(np.float64), bias) == (
        "dense_relu: B is f64[16, 32], the kernel takes f32[16, 32]")
    assert refused(dense, a[:4], b, bias) == (
        "dense_relu: A is f32[4, 16], the kernel takes f32[8, 16]")
    assert refused(dense, a, b, bias[None]) == (
        "dense_relu: bias is f32[1, 32], the kernel takes f32[32]")
    assert refused(dense, a, b, bias.astype(">f4")) == (
        "dense_relu: bias is of format '>f'[32], the kernel takes f32[32]")
    assert refused(dense, a, b, "none") == (
        "dense_relu: bias is a str, which has neither a buffer nor DLPack, the kernel takes f32[32]")
    assert refused(dense, a, np.asfortranarray(b), bias) == (
        "dense_relu: B is not contiguous in row-major order: its strides are [4, 64] bytes; "
        "numpy.ascontiguousarray() makes a copy that is")
    assert refused(dense, a, b, bias, out=np.zeros((32, 8), np.float32).T) == (
        "dense_relu: D is not contiguous in row-major order: its strides are [4, 32] bytes, and "
        "results are not copied")
    frozen = np.zeros((8, 32), np.float32)
    frozen.flags.writeable = False
    assert refused(dense, a, b, bias, out=frozen) == (
        "dense_relu: D is read-only, and the kernel writes it")


def test_reads_strided_columns_only_as_a_copy(dense, arrays):
    wide = np.zeros((8, 64), np.float32)
    wide[:, ::4] = arrays["A"]
    strided = wide[:, ::4]
    assert "strides are [256, 16] bytes" in refused(dense, strided, arrays["B"], arrays["bias"])
    got = dense(np.ascontiguousarray(strided), arrays["B"], arrays["bias"])
    assert np.allclose(got, expected(arrays), atol=1e-5)


def test_alignment_is_the_elements(dense, arrays):
    want = dense(**arrays)
    raw = np.zeros(arrays["B"].nbytes + 64, np.uint8)
    for offset in (4, 8, 12, 60):          # whole elements: right wherever it begins
        moved = np.ndarray((16, 32), np.float32, raw, offset)
        moved[:] = arrays["B"]
        assert np.array_equal(dense(arrays["A"], moved, arrays["bias"]), want)
    for offset in (1, 2, 3):
        moved = np.ndarray((16, 32), np.float32, raw, offset)
        assert refused(dense, arrays["A"], moved, arrays["bias"]) == (
            "dense_relu: B is not aligned to its elements, f32 of 4 bytes")


def test_results_overlap_nothing(untuned):
    add = untuned("add", N=64)
    memory = np.zeros(192, np.float32)
    a, b = memory[:64], memory[64:128]
    assert refused(add, a, b, out=memory[32:96]).startswith("add: C overlaps A")
    assert refused(add, a, b, out=b).startswith("add: C overlaps B")
    add(a, b, out=memory[128:])            # side by side is apart
    add(a, a, out=memory[128:])            # inputs may be the same


def test_counts_arguments(dense, arrays):
    a, b, bias = arrays.values()
    for inputs, named, text in (
            ((a, b), {}, "dense_relu: takes 3 inputs (A, B, bias), not 2"),
            ((a, b, bias, bias), {}, "dense_relu: takes 3 inputs (A, B, bias), not 4"),
            ((a, b, bias), {"D": a}, "dense_relu: there is no argument 'D'; inputs are A, B, bias, "
                                     "results go to out"),
            ((a, b, bias), {"B": b}, "dense_relu: B is given twice")):
        with pytest.raises(TypeError) as caught:
            dense(*inputs, **named)
        assert str(caught.value) == text


def test_binds_inputs(dense, arrays):
    want = dense(**arrays)
    bound = dense.bind(B=arrays["B"])
    assert bound.inputs == ("A", "bias")
    assert np.array_equal(bound(arrays["A"], arrays["bias"]), want)
    both = bound.bind(bias=arrays["bias"])
    assert np.array_equal(both(arrays["A"]), want)
    with pytest.raises(TypeError, match="there is no input 'Z' to bind"):
        dense.bind(Z=arrays["A"])
    assert "B is f64" in refused(lambda: dense.bind(B=arrays["B"].astype(np.float64)))


def test_packed_inputs_may_be_freed(packed_kernel):
    kernel, want, arrays = packed_kernel
    assert kernel.packed_bytes > 0 and not kernel.reads("B")
    weights = arrays["B"].copy()
    bound = kernel.bind(B=weights)
    weights[:] = np.nan                    # nobody reads it any more
    assert np.allclose(bound(arrays["A"]), want, atol=1e-4)
    again = arrays["B"].copy()             # unbound, each call packs what it is given
    assert np.allclose(kernel(arrays["A"], again), want, atol=1e-4)
    again *= 2
    assert np.allclose(kernel(arrays["A"], again), 2 * want, atol=2e-4)


def test_takes_buffers_and_dlpack(untuned):
    add = untuned("add", N=6)
    numbers = array.array("f", [1, 2, 3, 4, 5, 6])
    got = add(numbers, memoryview(numbers), out=(out := array.array("f", bytes(24))))
    assert got is out and list(out) == [2, 4, 6, 8, 10, 12]

    class Exporter:                        # DLPack alone, as other libraries' arrays have it
        def __init__(self, data, versions):
            self.data, self.versions = data, versions

        def __dlpack__(self, **options):
            if options and not self.versions:
                raise TypeError("no such keyword")
            return self.data.__dlpack__(**options)

    x = np.arange(6, dtype=np.float32)
    for versions in (True, False):
        y = np.zeros(6, np.float32)
        add(Exporter(x, versions), x, out=Exporter(y, versions))
        assert np.array_equal(y, 2 * x)
        assert "is f32[3], the kernel takes f32[6]" in refused(add, Exporter(x[:3], versions), x)
        assert "its strides are [2] elements" in refused(
            add, Exporter(np.zeros(12, np.float32)[::2], versions), x)


def test_takes_tensors_by_dlpacks_table_of_functions(untuned):
    """As torch and others lend theirs, without a capsule for each; here the table is Python's."""
    class DlTensor(ctypes.Structure):
        _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2),
                    ("rank", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                    ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p),
                    ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64)]

    @ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(DlTensor))
    def lend(lender, out):
        array = lender.array
        lender.shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        out[0] = DlTensor(data=array.ctypes.data - 8, device=(lender.device, 0), rank=array.ndim,
                          code=2, bits=8 * array.itemsize, lanes=1, byte_offset=8,
                          shape=ctypes.addressof(lender.shape))
        return 0

    table = (ctypes.c_void_p * 7)()        # version, previous, four functions, of which `lend`
    ctypes.memmove(table, (ctypes.c_uint32 * 2)(1, 3), 8)
    table[5] = ctypes.cast(lend, ctypes.c_void_p)
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype = ctypes.py_object
    capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

    class Lender:
        __dlpack_c_exchange_api__ = capsule(ctypes.addressof(table), b"dlpack_exchange_api", None)

        def __init__(self, array, device=1):
            self.array, self.device = array, device

    add = untuned("add", N=6)
    x, y = np.arange(6, dtype=np.float32), np.zeros(6, np.float32)
    add(Lender(x), Lender(x), out=Lender(y))
    assert np.array_equal(y, 2 * x)
    lender = Lender(x.copy())
    alive = weakref.ref(lender)
    bound = add.bind(B=lender)
    del lender
    assert alive() is not None and np.array_equal(bound(x), 2 * x)
    del bound
    assert alive() is None
    assert "A is f64[6], the kernel takes f32[6]" in refused(add, Lender(x.astype(np.float64)), x)
    assert "B is f32[2, 3], the kernel takes" in refused(add, x, Lender(x.reshape(2, 3)))
    assert "B is on a device of DLPack's type 2" in refused(add, x, Lender(x, device=2))


def test_broken_dlpack_is_an_error(untuned):
    add = untuned("add", N=6)
    x = np.zeros(6, np.float32)

    class Broken:
        def __init__(self, result):
            self.result = result

        def __dlpack__(self, **options):
            if isinstance(self.result, Exception):
                raise self.result
            return self.result

    assert "gives something from __dlpack__() that is no tensor" in refused(add, Broken(5), x)
    with pytest.raises(RuntimeError, match="not today"):
        add(Broken(RuntimeError("not today")), x)


def test_several_results(no_db):
    text = """op both(N = 8) {
  in X: f32[N]
  out Y[i: N] = X[i] + 1
  out Z[i: N] = X[i] * 2
}"""
    kernel = lw.op(text=text).kernel(db=no_db, threads=1)
    x = np.arange(8, dtype=np.float32)
    y, z = kernel(x)
    assert np.array_equal(y, x + 1) and np.array_equal(z, x * 2)
    mine = (np.zeros(8, np.float32), np.zeros(8, np.float32))
    assert kernel(x, out=mine) == mine
    assert np.array_equal(mine[1], z)
    for wrong in (mine[0], mine[:1], 3):
        with pytest.raises(TypeError, match=r"out must be a tuple of 2 results \(Y, Z\)"):
            kernel(x, out=wrong)
    assert refused(kernel, x, out=(mine[0], mine[0])).startswith("both: Y overlaps Z")


def test_more_arguments_than_a_frame_has(no_db):
    inputs = "\n".join(f"  in X{i}: f32[5]" for i in range(20))
    total = " + ".join(f"X{i}[j]" for i in range(20))
    kernel = lw.op(text=f"op many() {{\n{inputs}\n  out Y[j: 5] = {total}\n}}").kernel(db=no_db)
    given = [np.full(5, i, np.float32) for i in range(20)]
    assert np.array_equal(kernel(*given), np.full(5, sum(range(20)), np.float32))


def test_workers(untuned):
    kernel = untuned("matmul", threads=2, M=64, N=64, K=64)
    a, b = (np.random.default_rng(s).standard_normal((64, 64)).astype(np.float32) for s in (1, 2))
    want = kernel(a, b)
    assert kernel.threads == 2
    for workers in (1, 2, 5):
        kernel.workers = workers
        assert kernel.workers == workers and np.array_equal(kernel(a, b), want)
    kernel.workers = None
    before = lw.get_num_threads()
    lw.set_num_threads(1)
    assert kernel.workers == 1 and lw.get_num_threads() == 1
    assert np.array_equal(kernel(a, b), want)
    lw.set_num_threads(0)
    assert lw.get_num_threads() == before
    for wrong in (0, -1, 5000):
        assert "workers are 1 to 4096" in refused(lambda: setattr(kernel, "workers", wrong))
