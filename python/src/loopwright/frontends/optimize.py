"""JAX functions whose parts are kernels."""
from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import jax

from ..jax import JaxKernel
from ..ops import Op, op
from ..requests import Capture
from .graph import Graph, Value
from .groups import Group, partition
from .jaxpr import evaluate, trace
from .lookup import kernel_of, note_hits, write_request

def tasks(function: Callable[..., Any], *arguments: Any) -> list[tuple[Op, int]]:
    """The ops that the function's parts are, and how often each is called. `arguments`: arrays, or
    shapes as jax.ShapeDtypeStruct has them."""
    graph, _ = trace(_flat(function, jax.tree.structure(arguments)), *jax.tree.leaves(arguments))
    counts = Counter(group.text for group in partition(graph) if group.text)
    return [(op(text=text), times) for text, times in counts.items()]


def capture(path: str | os.PathLike[str], function: Callable[..., Any], *arguments: Any) -> Capture:
    """Writes them to a request file, for `loopwright tune --suite` and `lock`."""
    return write_request(path, [task for task, _ in tasks(function, *arguments)])


def optimize(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """The same function, with a kernel for each part that was tuned for exactly what it is; XLA has
    the rest. `options` as Op.kernel has them; `on_miss="nearest"` or `"default"` takes more. It is
    looked at once for each set of shapes, when it is traced: put `jax.jit` around it. Where it is
    differentiated, the function itself runs, so derivatives are its own, custom ones too."""
    options.setdefault("on_miss", "error")
    plans: dict[Any, Callable[..., Any]] = {}

    @wraps(function)
    def optimized(*arguments: Any) -> Any:
        leaves, structure = jax.tree.flatten(arguments)
        leaves = [jax.numpy.asarray(leaf) for leaf in leaves]
        key = (structure, *((leaf.shape, str(leaf.dtype)) for leaf in leaves))
        if key not in plans:
            shapes = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves]
            flat = _flat(function, structure)
            plans[key] = _differentiable(_Plan(*trace(flat, *shapes), options), flat)
        return plans[key](*leaves)
    return optimized


def _differentiable(plan: _Plan, function: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel beside the code that has its derivative would compute everything twice."""
    def whole(*leaves: Any) -> Any:
        return plan(leaves)

    with_derivative = jax.custom_jvp(whole)
    with_derivative.defjvp(lambda leaves, tangents: jax.jvp(function, leaves, tangents))
    return with_derivative


class _Plan:
    """The groups of one set of shapes, each with its kernel or without."""

    def __init__(self, graph: Graph, structure: Any, options: dict[str, Any]):
        self.graph, self.structure = graph, structure
        self.steps = [(group, _kernel_of(group, options)) for group in partition(graph)]
        note_hits([group for group, _ in self.steps],
                  sum(kernel is not None for _, kernel in self.steps))

    def __call__(self, leaves: Sequence[Any]) -> Any:
        known: dict[Value, Any] = dict(zip(self.graph.inputs, leaves))
        known.update(self.graph.constants)
        for group, kernel in self.steps:
            if kernel is None:
                evaluate(group.nodes, known)
                continue
            results = kernel(*(known[value] for value in group.inputs))
            known.update(zip(group.outputs, [results] if len(group.outputs) == 1 else results))
        flat = [known[v] if v.literal is None else v.literal for v in self.graph.outputs]
        return jax.tree.unflatten(self.structure, flat)


def _kernel_of(group: Group, options: dict[str, Any]) -> JaxKernel | None:
    kernel = kernel_of(op(text=group.text), options, "XLA") if group.text else None
    return None if kernel is None else JaxKernel(kernel)


def _flat(function: Callable[..., Any], structure: Any) -> Callable[..., Any]:
    return lambda *leaves: function(*jax.tree.unflatten(structure, leaves))
