"""Kernels in PyTorch, on the CPU.

    fast = torch.compile(model, backend="loopwright", options={"db": "lw.db", "threads": 1})
    with torch.no_grad():
        y = fast(x)

What was tuned for exactly its shapes becomes a kernel, Inductor has the rest: all of what takes gradients,
has dynamic shapes or writes to its inputs. Parameters are packed once, and again when they are others or
were written to (through `.data` torch notes no writes: compile again after those). `options`: those of
Op.kernel but `entry`; `on_miss` is "error" by default, that is Inductor.
"""
from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import torch
from torch._inductor.compile_fx import compile_fx, compile_fx_inner

from .errors import BadRequest
from .frontends import aten, torch_plan
from .frontends.lookup import kernel_of, write_request
from .ops import Op
from .requests import Capture

_OPTIONS = ("db", "snapshot", "on_miss", "threads", "target")


def backend(module: torch.fx.GraphModule, inputs: Sequence[Any], *,
            options: dict[str, Any] | None = None) -> Callable[..., Any]:
    """For torch.compile(backend="loopwright")."""
    options = {"on_miss": "error", **(options or {})}
    for name in options:
        if name not in _OPTIONS:
            raise BadRequest(f"torch.compile(backend=\"loopwright\"): there is no option {name!r}; "
                             f"there are {', '.join(_OPTIONS)}")
    return _compile(module, inputs, partial(kernel_of, options=options, framework="Inductor"))


def tasks(model: Callable[..., Any], *arguments: Any) -> list[tuple[Op, int]]:
    """The ops that the parts of `model(*arguments)` are, and how often each is called. It runs once, as
    Inductor has it, and torch forgets what it had compiled before."""
    counts: Counter[Op] = Counter()

    def count(op: Op) -> None:
        counts[op] += 1

    def counting(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        return _compile(module, inputs, count)
    torch._dynamo.reset()                  # else it is not looked at again
    with torch.no_grad():
        torch.compile(model, backend=counting)(*arguments)
    return list(counts.items())


def capture(path: str | os.PathLike[str], model: Callable[..., Any], *arguments: Any) -> Capture:
    """Writes them to a request file, for `loopwright tune --suite` and `lock`."""
    return write_request(path, [task for task, _ in tasks(model, *arguments)])


def _compile(module: torch.fx.GraphModule, inputs: Sequence[Any],
             find: torch_plan.Find) -> Callable[..., Any]:
    def inner(part: torch.fx.GraphModule, examples: Sequence[Any], **rest: Any) -> Any:
        plan = None
        if rest.get("is_inference") and torch_plan.fits(part, examples):
            plan = torch_plan.plan(part, rest.get("static_input_idxs") or (), find)
        return compile_fx_inner(part, examples, **rest) if plan is None else plan
    # That cache knows nothing of kernels, and would give what Inductor once made of the same graph.
    with torch._functorch.config.patch(enable_autograd_cache=False):
        return cast(Callable[..., Any], compile_fx(module, inputs, inner_compile=inner,
                                                   decompositions=aten.decompositions()))
