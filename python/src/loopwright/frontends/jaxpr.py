"""A jaxpr as a graph: calls of functions are inlined, and each value is its own."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax.extend import core

from .graph import Graph, Node, Value

# Equations that are calls of a jaxpr, and where it is.
_CALLS = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "core_call": "call_jaxpr",
          "custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr",
          "custom_vjp_call_jaxpr": "fun_jaxpr", "remat2": "jaxpr", "checkpoint": "jaxpr"}


def flatten(closed: core.ClosedJaxpr) -> Graph:
    graph = Graph([_value(v) for v in closed.jaxpr.invars], [], [], [])
    graph.outputs = _inline(closed, graph.inputs, graph)
    return graph


def _value(atom: Any) -> Value:
    return Value(tuple(atom.aval.shape), atom.aval.dtype)


def _inline(closed: Any, inputs: Sequence[Value], graph: Graph) -> list[Value]:
    jaxpr = getattr(closed, "jaxpr", closed)
    known: dict[Any, Value] = dict(zip(jaxpr.invars, inputs))
    for variable, array in zip(jaxpr.constvars, getattr(closed, "consts", [])):
        known[variable] = _value(variable)
        graph.constants.append((known[variable], array))

    def read(atom: Any) -> Value:
        if isinstance(atom, core.Literal):
            value = _value(atom)
            value.literal = atom.val
            return value
        return known[atom]

    for eqn in jaxpr.eqns:
        operands = [read(atom) for atom in eqn.invars]
        inner = eqn.params.get(_CALLS.get(eqn.primitive.name, ""))
        if inner is not None:
            results = _inline(inner, operands, graph)
        else:
            results = [_value(v) for v in eqn.outvars]
            node = Node(str(eqn.primitive.name), eqn.params, operands, origin=eqn.primitive)
            graph.add(node, results)
        known.update(zip(eqn.outvars, results))
    return [read(atom) for atom in jaxpr.outvars]


def evaluate(nodes: Sequence[Node], known: dict[Value, Any]) -> None:
    """Runs the nodes as JAX has them; `known` holds what they read, and then what they give."""
    for node in nodes:
        operands = [known[v] if v.literal is None else v.literal for v in node.inputs]
        primitive = node.origin
        results = primitive.bind(*operands, **primitive.get_bind_params(node.params))
        known.update(zip(node.outputs, results if primitive.multiple_results else [results]))


def trace(function: Any, *arguments: Any) -> tuple[Graph, Any]:
    """Of the function's flat arguments; also the structure of its result."""
    closed, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments)
    return flatten(closed), jax.tree.structure(shapes)
