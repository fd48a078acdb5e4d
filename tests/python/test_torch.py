"""torch.compile(backend="loopwright"). Not by .ci/run, whose wheels have no torch: `./run_tests --torch`."""
import json
import logging
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import loopwright as lw

torch = pytest.importorskip("torch")
functional = torch.nn.functional


class Convolved(torch.nn.Module):
    """Normalized, with a shortcut, a pool that has no words, and a product at the end."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.second = torch.nn.Conv2d(8, 8, 3, padding=2, dilation=2, groups=4)
        self.norm = torch.nn.BatchNorm2d(8)
        self.norm.running_mean.uniform_(-1, 1)
        self.norm.running_var.uniform_(1, 2)
        self.last = torch.nn.Linear(8, 5)

    def forward(self, x):
        y = functional.relu6(self.norm(self.first(x)))
        y = functional.max_pool2d(y + functional.silu(self.second(y)), 2)
        return self.last(y.mean((2, 3)))


class Attended(torch.nn.Module):
    """A layer of a transformer, of tokens."""

    def __init__(self):
        super().__init__()
        self.tokens = torch.nn.Embedding(11, 16)
        self.three, self.out = torch.nn.Linear(16, 48), torch.nn.Linear(16, 16)
        self.wide, self.narrow = torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(16) for _ in range(2))

    def forward(self, tokens):
        x = self.tokens(tokens)
        q, k, v = (y.unflatten(-1, (4, 4)).transpose(1, 2) for y in self.three(x).chunk(3, -1))
        mixed = functional.scaled_dot_product_attention(q, k, v)
        x = self.norms[0](x + self.out(mixed.transpose(1, 2).flatten(2)))
        return self.norms[1](x + self.narrow(functional.gelu(self.wide(x))))


class Mixed(torch.nn.Module):
    """Of each kind of type: what the parts of torch's operations would do to it."""

    def forward(self, x, i, h):
        pooled, order = functional.max_pool2d(x, 2), torch.sort(x[0, 0, 0]).indices
        near = torch.log1p(x[0, 0] * 1e-6) + x.select(3, -1)[0, 0, :1] + x[0, 0][-10:2, 1:].sum()
        late = h.mean(1), h.float().var(1, correction=7), torch.var(x, [], correction=0)
        whole = torch.where(i >= 0.5, i * 2, i + 1), (i ** 2.0).sum(-1), i / 2, i.sum(0) * 3
        wide = torch.softmax(x[0, 0, 0], -1)[:1].expand(3, 1), x.sum(-1, keepdim=True).expand_as(x)
        return pooled, order, near, *late, *whole, *wide, x.abs() ** float("inf"), i < float("inf")


class Viewed(torch.nn.Module):
    def forward(self, q):
        mixed = functional.scaled_dot_product_attention(q, q, q)
        return mixed.transpose(1, 2).reshape(2, 6, 16), torch.softmax(mixed, -1)


class Maps(torch.nn.Module):
    def forward(self, x, y):
        z = torch.where(x > y, x.clamp(-1, 0.5), y[:, :1]) ** 3
        low = z.amin(1, keepdim=True)
        w = (z - low + 1).sqrt() + x.t().contiguous().view(4, 6).t()[:, 1:2] * 2
        return torch.softmax(w, -1), z.sum(), (x >= 0.5) & (y[0] < 0)


MODELS = {  # a model, its inputs, how many kernels (None: some)
    "mlp": (lambda: torch.nn.Sequential(torch.nn.Linear(32, 48), torch.nn.ReLU(),
                                        torch.nn.Linear(48, 10), torch.nn.Softmax(-1)), [(8, 32)], 3),
    "convolved": (Convolved, [(2, 3, 9, 9)], 4),
    "norm": (lambda: torch.nn.LayerNorm(40), [(6, 40)], 1),
    "attended": (Attended, [torch.arange(12).reshape(2, 6) % 11], 6),
    "maps": (Maps, [(6, 4), (6, 4)], 2),
    "mixed": (Mixed, [(2, 3, 8, 8), torch.arange(-6, 6).reshape(3, 4),
                      torch.full((2, 3000), 30).half()], None),
    "viewed": (Viewed, [(2, 4, 6, 4)], 1),
    "batched": (lambda: torch.bmm, [(3, 4, 5), (3, 5, 6)], 1),
    "one dimension": (lambda: torch.nn.Conv1d(4, 6, 3, stride=2), [(2, 4, 11)], 1),
}


def inputs_of(shapes):
    return [s if isinstance(s, torch.Tensor) else torch.randn(s) for s in shapes]


@pytest.fixture(autouse=True)
def fresh():
    torch.manual_seed(3)
    torch._dynamo.reset()


def model_of(make):
    made = make()
    return made.eval() if isinstance(made, torch.nn.Module) else made


def hits(caplog):
    return sum(int(m.split()[0]) for m in caplog.messages if "have kernels" in m)


def compiled(model, **options):
    return torch.compile(model, backend="loopwright", options={"threads": 1, **options})


@pytest.mark.parametrize("name", MODELS)
def test_equals_the_model(name, no_db, caplog):
    make, shapes, kernels = MODELS[name]
    model, inputs = model_of(make), inputs_of(shapes)
    with caplog.at_level(logging.INFO, "loopwright"), torch.no_grad():
        got = compiled(model, on_miss="default", db=no_db)(*inputs)
    want = model(*inputs)
    for one, other in zip(*((x if isinstance(x, tuple) else (x,)) for x in (got, want))):
        assert one.shape == other.shape and one.dtype == other.dtype
        assert one.stride() == other.stride()
        np.testing.assert_allclose(one, other.detach(), rtol=2e-5, atol=2e-5)
    assert hits(caplog) == kernels if kernels is not None else hits(caplog) > 0
    assert not [record for record in caplog.records if record.levelname == "WARNING" and
                record.name == "loopwright"], "the translator writes what the language has"


def test_what_was_not_tuned_is_inductors(no_db, caplog):
    model, x = model_of(MODELS["mlp"][0]), torch.randn(8, 32)
    with caplog.at_level(logging.INFO, "loopwright"), torch.no_grad():
        got = compiled(model, db=no_db)(x)
    assert torch.allclose(got, model(x), atol=1e-6) and hits(caplog) == 0


def test_tasks_are_tuned_and_then_hit(tmp_path, caplog):
    model, x, db = model_of(MODELS["mlp"][0]), torch.randn(8, 32), str(tmp_path / "lw.db")
    tasks = lw.torch.tasks(model, x)
    for task, times in tasks:
        lw.tune(task, trials=1, seconds=20, threads=1, db=db)
    with caplog.at_level(logging.INFO, "loopwright"), torch.no_grad():
        got = compiled(model, db=db)(x)
    assert torch.allclose(got, model(x), atol=1e-6)
    assert hits(caplog) == len(tasks) == 3 and {times for _, times in tasks} == {1}


def test_capture(tmp_path):
    lw.torch.capture(tmp_path / "request.json", model_of(MODELS["mlp"][0]), torch.randn(8, 32))
    entries = json.loads((tmp_path / "request.json").read_text())["workloads"]
    assert [entry["const"] for entry in entries] == [["X0", "X2"], ["X0", "X2"], []]


def test_changed_weights_are_packed_again(no_db):
    model = torch.nn.Linear(64, 64).eval()
    x, fast = torch.randn(16, 64), compiled(model, on_miss="default", db=no_db)
    with torch.no_grad():
        for _ in range(2):
            assert torch.allclose(fast(x), model(x), atol=1e-5)
            model.weight.mul_(2)           # in place
        model.weight = torch.nn.Parameter(torch.randn(64, 64))
        assert torch.allclose(fast(x), model(x), atol=1e-5)
        for _ in range(8):                 # also at the address of one that is gone
            model.weight = None
            model.weight = torch.nn.Parameter(torch.randn(64, 64))
            assert torch.allclose(fast(x), model(x), atol=1e-5)
        model.load_state_dict({"weight": torch.ones(64, 64), "bias": torch.zeros(64)})
        assert torch.allclose(fast(x), model(x), atol=1e-5)


def test_inference_mode(no_db, caplog):
    x = torch.randn(16, 64)
    with torch.inference_mode(), caplog.at_level(logging.INFO, "loopwright"):
        model = torch.nn.Linear(64, 64)
        fast = compiled(model, on_miss="default", db=no_db)
        for _ in range(2):
            assert torch.allclose(fast(x), model(x), atol=1e-5)
            model.weight.mul_(2)
    assert hits(caplog) == 1


def test_any_layout_of_inputs(no_db):
    model = model_of(MODELS["convolved"][0])
    fast = compiled(model, on_miss="default", db=no_db)
    x = torch.randn(2, 3, 9, 9)
    with torch.no_grad():
        for laid in (x, x.to(memory_format=torch.channels_last), x.flip(0).transpose(2, 3)):
            assert torch.allclose(fast(laid), model(laid), atol=1e-5)


def test_gradients_are_inductors(no_db, caplog):
    model, x = model_of(MODELS["mlp"][0]), torch.randn(8, 32)
    with caplog.at_level(logging.INFO, "loopwright"):
        compiled(model, on_miss="default", db=no_db)(x).sum().backward()
    assert hits(caplog) == 0 and model[0].weight.grad is not None


def test_writes_to_inputs_are_inductors(no_db, caplog):
    def accumulate(x, y):
        x += torch.softmax(y, -1)
        return x * 2
    x, y = torch.zeros(4, 5), torch.randn(4, 5)
    with caplog.at_level(logging.INFO, "loopwright"), torch.no_grad():
        got = compiled(accumulate, on_miss="default", db=no_db)(x, y)
    assert torch.allclose(x, torch.softmax(y, -1)) and torch.allclose(got, x * 2)
    assert hits(caplog) == 0


def test_dynamic_shapes_are_inductors(no_db, caplog):
    model = model_of(MODELS["mlp"][0])
    fast = torch.compile(model, backend="loopwright", dynamic=True,
                         options={"on_miss": "default", "threads": 1, "db": no_db})
    with caplog.at_level(logging.INFO, "loopwright"), torch.no_grad():
        for rows in (4, 7):
            x = torch.randn(rows, 32)
            assert torch.allclose(fast(x), model(x), atol=1e-6)
    assert hits(caplog) == 0


def test_bf16(no_db, caplog):
    model, x = torch.nn.Linear(32, 16).eval().bfloat16(), torch.randn(8, 32).bfloat16()
    with caplog.at_level(logging.INFO, "loopwright"), torch.no_grad():
        got = compiled(model, on_miss="default", db=no_db)(x)
    assert got.dtype == torch.bfloat16 and torch.allclose(got.float(), model(x).float(), rtol=2e-2)
    assert hits(caplog) == 1


@pytest.mark.parametrize("options, said", [({"theads": 1}, "there is no option 'theads'"),
                                           ({"on_miss": "eror"}, "not 'eror'"),
                                           ({"target": "nosuch"}, "nosuch")])
def test_options_are_checked(options, said):
    with pytest.raises(Exception, match=said), torch.no_grad():
        torch.compile(torch.nn.Softmax(-1), backend="loopwright", options=options)(torch.ones(3, 4))


def test_kernels_take_tensors(no_db):
    k = lw.op("matmul", M=8, N=8, K=8).kernel(threads=1, db=no_db)
    a, b, c = torch.randn(8, 8), torch.randn(8, 8), torch.empty(8, 8)
    k(a, b, out=c)
    assert torch.allclose(c, a @ b, atol=1e-6)
    with pytest.raises(lw.BadRequest, match="B"):
        k(a, b.t(), out=c)


@pytest.mark.parametrize("order", ["torch jax loopwright", "jax torch loopwright", "torch loopwright jax",
                                   "loopwright torch jax", "jax loopwright torch",
                                   "loopwright jax torch"])
def test_any_order_of_imports(order, no_db):
    """Each brings an LLVM of its own."""
    pytest.importorskip("jax")
    code = f"""
        import {order.replace(" ", ", ")}
        import loopwright as lw
        k = lw.op("matmul", M=8, N=8, K=8).kernel(threads=1, db={no_db!r})
        a = torch.ones(8, 8)
        assert torch.equal(torch.as_tensor(k(a, a)), a @ a)
        with torch.no_grad():
            torch.compile(torch.nn.Linear(8, 8), backend="loopwright",
                          options={{"threads": 1, "on_miss": "default", "db": {no_db!r}}})(a)
        assert float(jax.jit(lw.jax.kernel(k))(jax.numpy.ones((8, 8)), jax.numpy.ones((8, 8)))[0, 0]) == 8
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
