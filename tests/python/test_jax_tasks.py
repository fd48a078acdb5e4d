"""JAX functions whose parts become ops: their texts, their values, and the way back."""
import json

import numpy as np
import pytest

import loopwright as lw

jax = pytest.importorskip("jax")
jnp = jax.numpy

from loopwright.frontends.groups import partition   # noqa: E402  (both need JAX)
from loopwright.frontends.jaxpr import trace        # noqa: E402


def arrays(*shapes, dtype=np.float32):
    generator = np.random.default_rng(len(shapes))
    return [jnp.asarray(generator.uniform(-1, 1, shape).astype(dtype)) for shape in shapes]


def mlp(x, w1, b1, w2, b2):
    return jax.nn.softmax(jax.nn.relu(x @ w1 + b1) @ w2 + b2)


def layer_norm(x, g, b):
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred ** 2).mean(-1, keepdims=True) + 1e-5) * g + b


def attention(x, wq, wk, wv):
    batch, steps, width = x.shape
    q, k, v = ((x @ w).reshape(batch, steps, 4, width // 4).transpose(0, 2, 1, 3)
               for w in (wq, wk, wv))
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(width // 4)
    mixed = jax.nn.softmax(scores) @ v
    return mixed.transpose(0, 2, 1, 3).reshape(batch, steps, width)


def conv_nhwc(x, f, b):
    y = jax.lax.conv_general_dilated(x, f, (2, 2), "SAME",
                                     dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return jax.nn.gelu(y + b)


def conv_nchw(x, f):
    return jax.nn.silu(jax.lax.conv_general_dilated(
        x, f, (1, 1), [(1, 1), (0, 2)], rhs_dilation=(2, 1), feature_group_count=2))


def conv_normalized(x, f, mean, variance, g, b):
    """What the inputs alone make is of the convolution's kernel, and computed once a channel."""
    y = jax.lax.conv_general_dilated(x, f, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return jax.nn.relu((y - mean) * jax.lax.rsqrt(jnp.abs(variance) + 1e-5) * g + b)


def conv_of(view):
    """A padded convolution of a view of its input, whose bounds are not the input's."""
    return lambda x, f: jax.lax.conv_general_dilated(
        view(x), f, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def conv_transposed(x, f):
    """Twice as many pixels down, three times as many across."""
    return jax.lax.conv_general_dilated(
        x, f, (1, 1), [(2, 2), (1, 0)], lhs_dilation=(2, 3),
        dimension_numbers=("NHWC", "HWIO", "NHWC"))


def residual(x, w):
    y = jnp.tanh(x @ w)
    return jnp.where(y > 0.5, y, x * 2) + jnp.clip(y, -0.1, 0.1), y.sum(0)


def indices(x):
    y = jnp.exp(x[1:7:2, 3:]).reshape(-1, 3)
    return jnp.log1p(jnp.abs(y.T.reshape(3, 2, -1) - 1)) * jnp.sqrt(jnp.square(y.max()))


def through_both(x, w):
    """What joins a group must not be read on a way out of it and back."""
    y = x @ w
    z = jnp.cumsum(y, 0)
    return y * 2 + z


MODELS = {
    "mlp": (mlp, [(8, 32), (32, 48), (48,), (48, 10), (10,)], 3),
    "layer_norm": (layer_norm, [(6, 40), (40,), (40,)], 1),
    "attention": (attention, [(2, 6, 16), (16, 16), (16, 16), (16, 16)], 6),
    "conv_nhwc": (conv_nhwc, [(1, 9, 9, 4), (3, 3, 4, 8), (8,)], 1),
    "conv_normalized": (conv_normalized, [(1, 9, 9, 4), (3, 3, 4, 8)] + [(8,)] * 4, 1),
    "conv_nchw": (conv_nchw, [(1, 4, 9, 9), (6, 2, 3, 3)], 1),
    "conv_reshaped": (conv_of(lambda x: x.reshape(1, 6, 6, 4)), [(36, 4), (3, 3, 4, 8)], 1),
    "conv_sliced": (conv_of(lambda x: x[:, 2:8, 1:7]), [(1, 9, 9, 4), (3, 3, 4, 8)], 1),
    "conv_broadcast": (conv_of(lambda x: jnp.broadcast_to(x, (1, 6, 6, 4))),
                       [(1, 6, 1, 4), (3, 3, 4, 8)], 1),
    "conv_transposed": (conv_transposed, [(2, 5, 4, 3), (4, 2, 3, 6)], 1),
    "near_one": (lambda x: jnp.log1p(x * 1e-6) * 1e6 + jnp.log1p(jnp.abs(x) * 1e9), [(5, 7)], 1),
    "doubled": (lambda x: [x := x + x * 0.5 for _ in range(23)][-1], [(3, 5)], 1),
    "residual": (residual, [(12, 12), (12, 12)], 2),
    "indices": (indices, [(9, 9)], 1),
    "through_both": (through_both, [(5, 7), (7, 7)], 1),
}


@pytest.mark.parametrize("name", MODELS)
def test_equals_the_function(name, no_db):
    function, shapes, kernels = MODELS[name]
    inputs = arrays(*shapes)
    optimized = lw.jax.optimize(function, db=no_db, threads=1, on_miss="default")
    want = function(*inputs)
    got = jax.jit(optimized)(*inputs)
    assert jax.tree.structure(got) == jax.tree.structure(want)
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(want)):
        assert one.shape == other.shape and one.dtype == other.dtype
        assert np.allclose(one, other, rtol=2e-5, atol=2e-5)
    assert str(jax.make_jaxpr(optimized)(*inputs)).count("target_name=loopwright_run") == kernels


def bert_layer(x, w, wo, w1, b1, w2, b2, g, b):
    mixed = layer_norm(x + attention(x, *w) @ wo, g, b)
    return layer_norm(mixed + jax.nn.gelu(mixed @ w1 + b1) @ w2 + b2, g, b)


def convolved(x, f, stride=1, groups=1):
    return jax.lax.conv_general_dilated(x, f, (stride, stride), "SAME", feature_group_count=groups,
                                        dimension_numbers=("NHWC", "HWIO", "NHWC"))


def residual_block(x, f1, s1, f2, s2, f3):
    """Batch normalization folded into scales; the last pixel-wise convolution is the shortcut's."""
    y = jax.nn.relu(convolved(x, f1, 2) * s1[0] + s1[1])
    return jax.nn.relu(convolved(y, f2) * s2[0] + s2[1] + convolved(x, f3, 2))


def separable_block(x, depthwise, s1, pointwise, s2):
    y = jax.nn.relu6(convolved(x, depthwise, groups=x.shape[-1]) * s1[0] + s1[1])
    return jax.nn.relu6(convolved(y, pointwise) * s2[0] + s2[1]).mean((1, 2))


BLOCKS = {
    "bert": (bert_layer, [(2, 6, 16), [(16, 16)] * 3, (16, 16), (16, 64), (64,), (64, 16), (16,),
                          (16,), (16,)]),
    "resnet": (residual_block, [(1, 8, 8, 4), (3, 3, 4, 8), (2, 8), (3, 3, 8, 8), (2, 8),
                                (1, 1, 4, 8)]),
    "mobilenet": (separable_block, [(1, 8, 8, 6), (3, 3, 1, 6), (2, 6), (1, 1, 6, 10), (2, 10)]),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_all_products_of_models_are_in_tasks(name, no_db):
    function, shapes = BLOCKS[name]
    inputs = [arrays(*one) if isinstance(one, list) else arrays(one)[0] for one in shapes]
    flat = jax.tree.leaves(inputs)
    structure = jax.tree.structure(inputs)
    graph, _ = trace(lambda *leaves: function(*jax.tree.unflatten(structure, leaves)), *flat)
    left = [node.name for group in partition(graph) if not group.text for node in group.nodes]
    assert not {"dot_general", "conv_general_dilated", "reduce_sum", "reduce_max"} & set(left), left
    optimized = lw.jax.optimize(function, db=no_db, threads=1, on_miss="default")
    assert np.allclose(optimized(*inputs), function(*inputs), rtol=1e-4, atol=1e-4)


def test_a_task_is_what_one_would_write():
    x, w, b = arrays((8, 32), (32, 48), (48,))
    ((op, times),) = lw.jax.tasks(lambda x, w, b: jax.nn.relu(x @ w + b), x, w, b)
    assert times == 1
    assert op.id == lw.op("dense_relu", M=8, N=48, K=32, const=()).id
    ((op, _),) = lw.jax.tasks(jax.nn.softmax, x)
    assert op.id == lw.op("softmax", M=8, N=32).id
    ((op, _),) = lw.jax.tasks(lambda x, w: (x @ w).T.reshape(6, 8, 8), x, w)
    assert op.text.count("] = ") == 1, "no copy follows a product"
    ((op, _),) = lw.jax.tasks(jnp.matmul, *arrays((3, 4, 5), (3, 5, 6)))
    assert op.id == lw.op("batch_matmul", B=3, M=4, N=6, K=5).id


def test_equal_tasks_are_one():
    x, *weights = arrays(*[(16, 16)] * 4)
    ((_, times),) = lw.jax.tasks(
        lambda x, weights: [x := jnp.tanh(x @ w) for w in weights][-1], x, weights)
    assert times == 3


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_types(dtype, no_db):
    x, w = (a.astype(dtype) for a in arrays((8, 16), (16, 8)))
    function = jax.jit(lambda x, w: jax.nn.relu(x @ w).sum(0))
    optimized = lw.jax.optimize(function, db=no_db, threads=1, on_miss="default")
    got = optimized(x, w)
    assert got.dtype == dtype
    assert np.allclose(got.astype(np.float32), function(x, w).astype(np.float32), rtol=0.05,
                       atol=0.05)


def test_integers(no_db):
    x = jnp.asarray(np.random.default_rng(0).integers(-9, 9, (8, 16)), jnp.int8)

    def function(x):
        return jax.lax.dot_general(x, x, (((1,), (1,)), ((), ())),
                                   preferred_element_type=jnp.int32) // 2 + 1
    optimized = lw.jax.optimize(function, db=no_db, threads=1, on_miss="default")
    assert np.array_equal(optimized(x), function(x))


def test_gradients_are_jaxs(no_db):
    inputs = arrays(*MODELS["mlp"][1])
    optimized = lw.jax.optimize(mlp, db=no_db, threads=1, on_miss="default")
    for got, want in zip(*(jax.grad(lambda *a, f=f: (f(*a) ** 2).sum(), (0, 1, 3))(*inputs)
                           for f in (optimized, mlp))):
        assert np.allclose(got, want, rtol=1e-4, atol=1e-5)


@jax.custom_vjp
def rounded(x):
    """Straight through: its gradient is that of x."""
    return jnp.floor(x * 4 + 0.5) / 4


rounded.defvjp(lambda x: (rounded(x), None), lambda _, cotangent: (cotangent,))


def test_custom_derivatives_are_kept(no_db):
    def function(x, w, steps):
        hidden = jax.nn.relu(rounded(x @ w))         # relu's gradient is 0 at 0
        return jnp.tanh(rounded(hidden) @ w) * steps

    x, w = arrays((4, 8), (8, 8))
    x, steps = x.at[0].set(0), jnp.arange(8)         # integers have no gradient
    optimized = lw.jax.optimize(function, db=no_db, threads=1, on_miss="default")
    assert "target_name=loopwright_run" in str(jax.make_jaxpr(optimized)(x, w, steps))
    assert np.allclose(optimized(x, w, steps), function(x, w, steps), atol=1e-5)
    for derivative in (lambda f: jax.grad(f)(x), lambda f: jax.jit(jax.grad(f))(x),
                       lambda f: jax.grad(jax.jit(f))(x), lambda f: jax.jacrev(jax.grad(f))(x),
                       lambda f: jax.vmap(jax.grad(f))(jnp.stack([x, x + 1]))):
        got, want = (derivative(lambda x, f=f: (f(x, w, steps) ** 2).sum())
                     for f in (optimized, function))
        assert np.any(want) and np.allclose(got, want, rtol=1e-5, atol=1e-6)


def test_constants_are_inputs(no_db):
    (x,), (w,) = arrays((4, 8)), arrays((8, 8))
    optimized = lw.jax.optimize(lambda x: jnp.tanh(x @ w), db=no_db, threads=1, on_miss="default")
    assert np.allclose(optimized(x), jnp.tanh(x @ w), atol=1e-5)


def test_what_has_no_words_is_xlas(no_db):
    (x,) = arrays((6, 6))

    def function(x):
        return jnp.sort(x), x.T, jnp.array(2.0), jax.lax.fori_loop(0, 3, lambda i, y: y * 2, x)
    optimized = lw.jax.optimize(function, db=no_db, threads=1, on_miss="default")
    assert lw.jax.tasks(function, x) == []
    for got, want in zip(optimized(x), function(x)):
        assert np.array_equal(got, want)


def test_captured_tuned_and_hit_again(tmp_path):
    shapes = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in MODELS["mlp"][1]]
    request = tmp_path / "request.json"
    captured = lw.jax.capture(request, mlp, *shapes)
    programs = [w["program"] for w in json.loads(request.read_text())["workloads"]]
    assert len(programs) == len(captured.ops) == 3
    assert [text.split("(")[0] for text in programs][0] == "op dot_general_add_max"

    db = tmp_path / "lw.db"
    inputs = arrays(*MODELS["mlp"][1])
    untuned = lw.jax.optimize(mlp, db=db, threads=1)
    assert "loopwright_run" not in str(jax.make_jaxpr(untuned)(*inputs))
    for op in captured.ops:
        lw.tune(op, trials=1, seconds=20, threads=1, db=db)
    tuned = lw.jax.optimize(mlp, db=db, threads=1)
    assert str(jax.make_jaxpr(tuned)(*inputs)).count("target_name=loopwright_run") == 3
    assert np.allclose(tuned(*inputs), mlp(*inputs), atol=1e-5)
