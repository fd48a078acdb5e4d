"""What frameworks compute as a flat list of nodes, in the words of JAX's primitives."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(eq=False)
class Value:
    """Of an array: an input, a constant, or what a node gives. `literal`: of a known scalar."""

    shape: tuple[int, ...]
    dtype: Any                             # its str() is NumPy's name
    literal: Any = None
    node: Node | None = None               # that gives it


@dataclass(eq=False)
class Node:
    name: str                              # of the primitive
    params: dict[str, Any]
    inputs: list[Value]
    outputs: list[Value] = field(default_factory=list)
    origin: Any = None                     # of the framework: what it was read from


@dataclass
class Graph:
    inputs: list[Value]
    constants: list[tuple[Value, Any]]     # arrays that the function closed over
    nodes: list[Node]                      # each after those it reads
    outputs: list[Value]

    def add(self, node: Node, outputs: list[Value]) -> None:
        node.outputs = outputs
        for value in outputs:
            value.node = node
        self.nodes.append(node)
