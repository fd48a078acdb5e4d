"""Kernels in JAX programs."""
import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import loopwright as lw

jax = pytest.importorskip("jax")
jnp = jax.numpy


def operands(*shapes, seed=1):
    generator = np.random.default_rng(seed)
    return [jnp.asarray(generator.uniform(-1, 1, shape).astype(np.float32)) for shape in shapes]


@pytest.fixture(scope="module")
def product(untuned):
    return lw.jax.kernel(untuned("matmul", threads=2, M=96, N=96, K=96), reference=jnp.matmul)


@pytest.fixture(scope="module")
def packing(packed_kernel):
    kernel, _, arrays = packed_kernel
    return lw.jax.kernel(kernel), arrays


def test_under_jit(product):
    a, b = operands((96, 96), (96, 96))
    want = a @ b
    assert np.allclose(product(a, b), want, atol=1e-4)
    got = jax.jit(lambda a, b: jnp.sum(product(a + 1, b) * 2))(a, b)
    assert np.allclose(got, jnp.sum((a + 1) @ b * 2), rtol=1e-4)
    transposed = jax.jit(lambda a, b: product(a.T, b))(a, b)
    assert np.allclose(transposed, a.T @ b, atol=1e-4)


def test_under_vmap(product):
    a, b = operands((3, 96, 96), (96, 96))
    got = jax.jit(jax.vmap(product, (0, None)))(a, b)
    assert np.allclose(got, a @ b, atol=1e-4)


def test_in_scan(product):
    a, b = operands((96, 96), (96, 96))
    step = jax.jit(lambda a: jax.lax.scan(lambda x, _: (product(x, b) / 10, None), a, None, 5)[0])
    want = a
    for _ in range(5):
        want = want @ b / 10
    assert np.allclose(step(a), want, atol=1e-4)


def test_gradients_are_the_references(product, untuned):
    a, b = operands((96, 96), (96, 96))
    got = jax.jit(jax.grad(lambda a, b: jnp.sum(product(a, b) ** 2), (0, 1)))(a, b)
    want = jax.grad(lambda a, b: jnp.sum((a @ b) ** 2), (0, 1))(a, b)
    for one, other in zip(got, want):
        assert np.allclose(one, other, rtol=1e-3, atol=1e-2)
    plain = lw.jax.kernel(untuned("relu", N=16))
    with pytest.raises(lw.BadRequest, match="relu has no gradient: lw.jax.kernel"):
        jax.grad(lambda x: jnp.sum(plain(x)))(jnp.ones(16))


@pytest.mark.filterwarnings("ignore:Some donated buffers")
def test_donated_inputs(product):
    a, b = operands((96, 96), (96, 96))
    want = np.asarray(a @ b)
    assert np.allclose(jax.jit(product, donate_argnums=(0, 1))(a, b), want, atol=1e-4)


def test_packed_inputs_are_an_operand(packing):
    kernel, arrays = packing
    a, w = jnp.asarray(arrays["A"]), jnp.asarray(arrays["B"])
    want = a @ w
    packed = kernel.prepack(B=w)
    assert packed.dtype == jnp.uint8 and packed.shape == (kernel.kernel.packed_bytes,)
    step = jax.jit(lambda a, packed: kernel(a, packed=packed))
    assert np.allclose(step(a, packed), want, atol=1e-4)
    # Another model's weights, by the same program; and bytes that begin anywhere.
    assert np.allclose(step(a, kernel.prepack(B=2 * w)), 2 * want, atol=1e-4)
    assert np.allclose(jax.jit(kernel)(a, w), want, atol=1e-4)
    shifted = jnp.concatenate([jnp.zeros(7, jnp.uint8), packed])
    assert np.allclose(jax.jit(lambda a, s: kernel(a, packed=s[7:]))(a, shifted), want, atol=1e-4)
    two = jax.jit(jax.vmap(lambda w: kernel(a, packed=kernel.prepack(B=w))))(jnp.stack([w, 3 * w]))
    assert np.allclose(two, jnp.stack([want, 3 * want]), atol=2e-4)


def test_workspaces_are_results(no_db):
    """A stage that no loop shares with the next has memory that XLA plans."""
    op = lw.op("layer_norm_2d", B=3, M=8, N=9)
    for threads in (1, 2):
        kernel = op.kernel(db=no_db, threads=threads)
        assert kernel.workspace_bytes + kernel.private_bytes > 0
        x, g, b = operands(*(arg.shape for arg in kernel.args[:3]))
        got = jax.jit(lw.jax.kernel(kernel))(x, g, b)
        assert np.allclose(got, kernel(*(np.asarray(v) for v in (x, g, b))), atol=1e-5)


def test_several_results(no_db):
    text = """op both(N = 8) {
  in X: f32[N]
  out Y[i: N] = X[i] + 1
  out Z[i: N] = X[i] * 2
}"""
    both = lw.jax.kernel(lw.op(text=text), db=no_db, threads=1)
    x = jnp.arange(8, dtype=jnp.float32)
    y, z = jax.jit(both)(x)
    assert np.array_equal(y, x + 1) and np.array_equal(z, x * 2)


def test_types(no_db):
    for name, dtype in (("bf16", jnp.bfloat16), ("f16", jnp.float16), ("i8", jnp.int8)):
        add = lw.jax.kernel(lw.op("relu", N=32, T=name), db=no_db, threads=1)
        x = (jnp.arange(32) - 16).astype(dtype)
        assert np.array_equal(jax.jit(add)(x), jnp.maximum(x, 0))


def test_what_does_not_fit_is_said_when_it_is_traced(product, packing):
    a, b = operands((96, 96), (96, 96))
    with pytest.raises(lw.BadRequest) as caught:
        jax.jit(product)(a, b[:3])
    assert str(caught.value) == (
        "matmul: B is float32[3, 96], the kernel takes float32[96, 96]")
    with pytest.raises(lw.BadRequest, match=r"A is float16\[96, 96\]"):
        product(a.astype(jnp.float16), b)
    with pytest.raises(TypeError, match=r"takes 2 inputs \(A, B\), not 1"):
        product(a)
    with pytest.raises(lw.BadRequest, match="matmul packs nothing"):
        product.prepack()
    with pytest.raises(lw.BadRequest, match="prepack takes B by name, not W"):
        packing[0].prepack(W=a)


def test_threads_share_a_program(product):
    a, b = operands((96, 96), (96, 96))
    program = jax.jit(lambda a, b: product(product(a, b) / 50, b))
    want = np.asarray(program(a, b))
    wrong = []

    def work():
        for _ in range(50):
            if not np.array_equal(program(a, b), want):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def run_python(code, **environment):
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True,
                          text=True, timeout=300, env={**os.environ, **environment})


def test_exported_programs_find_their_kernels(product, tmp_path):
    a, b = operands((96, 96), (96, 96))
    exported = jax.export.export(jax.jit(product), disabled_checks=lw.jax.disabled_checks())(a, b)
    file = tmp_path / "program"
    file.write_bytes(exported.serialize())
    np.savez(tmp_path / "data.npz", a=a, b=b)
    code = f"""
        import jax, numpy as np
        import loopwright as lw
        REGISTER
        data = np.load({str(tmp_path / "data.npz")!r})
        program = jax.export.deserialize(open({str(file)!r}, "rb").read())
        try:
            got = program.call(data["a"], data["b"])
            print(np.allclose(got, data["a"] @ data["b"], atol=1e-4))
        except jax.errors.JaxRuntimeError as error:
            print(error)
    """
    known = run_python(code.replace("REGISTER", f"lw.jax.register({product.kernel.path!r})"))
    assert known.stdout == "True\n", known.stderr
    unknown = run_python(code.replace("REGISTER", "lw.jax"))
    assert (f"NOT_FOUND: loopwright: no kernel {product.kernel.digest} is registered"
            in unknown.stdout), unknown.stderr


def test_kept_programs_stay_true(product, tmp_path):
    """JAX's cache on disk: a second process, whose addresses are others, takes what the first kept."""
    code = f"""
        import jax, jax.numpy as jnp
        import loopwright as lw
        jax.config.update("jax_compilation_cache_dir", {str(tmp_path)!r})
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
        hits = []
        jax.monitoring.register_event_listener(lambda name, **_: hits.append(name))
        k = lw.jax.kernel(lw.load({product.kernel.path!r}))
        a = jnp.eye(96)
        print(bool(jnp.array_equal(jax.jit(k)(a, a), a)),
              "/jax/compilation_cache/cache_hits" in hits)
    """
    first, second = run_python(code), run_python(code)
    assert first.stdout.split()[0] == "True", first.stderr
    assert second.stdout == "True True\n", second.stderr
