"""Which nodes become one kernel: a product or convolution with what is done to each of its elements, or
a chain of reductions and elementwise steps. The rest is the framework's."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter

from .graph import Graph, Node, Value
from .text import Unsupported, kind_of, op_text


@dataclass(eq=False)
class Group:
    nodes: list[Node] = field(default_factory=list)
    kind: str = ""                         # "anchor", "chain", or "": of the framework
    inputs: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    text: str = ""                         # of the op; "": it is none

    @property
    def name(self) -> str:
        return "_".join(dict.fromkeys(n.name for n in self.nodes if kind_of(n) != "view"))[:60]


def partition(graph: Graph) -> list[Group]:
    """All nodes, in groups of which each stands after those it reads."""
    home: dict[Node, Group] = {}
    needs: dict[Group, dict[Group, None]] = {}
    views = _views_of_inputs(graph)

    def sources(node: Node) -> list[Group]:
        return [home[v.node] for v in node.inputs if v.node is not None and v.node in home]

    def reads(group: Group, other: Group) -> bool:
        """Whether it needs the other, also by way of more."""
        seen, left = set[Group](), [group]
        while left:
            one = left.pop()
            if one is other:
                return True
            if one not in seen:
                seen.add(one)
                left += needs[one]
        return False

    users: dict[Value, set[Node]] = {}
    for node in graph.nodes:
        for value in node.inputs:
            users.setdefault(value, set()).add(node)
    for value in graph.outputs:
        users.setdefault(value, set()).add(_END)

    for node in graph.nodes:
        if node in views:
            continue                       # written anew where it is read
        kind = kind_of(node)
        before = sources(node)
        # The last that it reads, but rather a product than what is beside it: scales, say.
        for group in sorted(reversed(before), key=lambda group: group.kind != "anchor"):
            others = [other for other in before if other is not group]
            joins = group.kind and (kind in ("map", "view") or
                                    kind == "reduce" and group.kind == "chain")
            if joins and not any(reads(other, group) for other in others):
                break
        else:
            group = Group(kind={"": "", "anchor": "anchor"}.get(kind, "chain"))
            needs[group] = {}
        group.nodes.append(node)
        home[node] = group
        needs[group] |= dict.fromkeys(other for other in before if other is not group)
        for part in needs[group].copy():
            if group.kind and _is_part_of(part, group, views, users):
                group.nodes = part.nodes + group.nodes
                home.update(dict.fromkeys(part.nodes, group))
                del needs[part], needs[group][part]

    for node in graph.nodes:
        if node in views and any(v in graph.outputs for v in node.outputs):
            needs[Group([node])] = {}
    ordered = list(TopologicalSorter(needs).static_order())
    _close(ordered, views, users)
    return ordered


_END = Node("", {}, [])                     # reads what the graph gives


def _is_part_of(part: Group, group: Group, views: set[Node], users: dict[Value, set[Node]]) -> bool:
    """Whether it is elementwise, reads nothing but inputs, and is read by the group alone."""
    own = {*part.nodes, *group.nodes}
    return all(kind_of(node) in ("map", "view") and
               all(v.node is None or v.node in views or v.node in own for v in node.inputs) and
               all(users.get(v, set()) <= own for v in node.outputs) for node in part.nodes)


def _views_of_inputs(graph: Graph) -> set[Node]:
    """Nodes that only index inputs, or views of those: not worth a kernel's result."""
    views: set[Node] = set()
    for node in graph.nodes:
        if kind_of(node) == "view" and all(v.node is None or v.node in views for v in node.inputs):
            views.add(node)
    return views


def _close(groups: Sequence[Group], views: set[Node], users: dict[Value, set[Node]]) -> None:
    """Gives each group the views it reads, its interface, and its text."""
    for group in groups:
        group.nodes = _with_views(group.nodes, views)
    for group in groups:
        own = {v for node in group.nodes for v in node.outputs}
        read = {v: None for node in group.nodes for v in node.inputs
                if v not in own and v.literal is None}
        nodes = set(group.nodes)
        group.inputs = list(read)
        group.outputs = [v for node in group.nodes if node not in views
                         for v in node.outputs if not users.get(v, set()) <= nodes]
        if group.kind and group.inputs and group.outputs and _is_worth_it(group):
            try:
                group.text = op_text(group.nodes, group.inputs, group.outputs, group.name)
            except Unsupported:
                pass


def _with_views(nodes: Sequence[Node], views: set[Node]) -> list[Node]:
    full: dict[Node, None] = {}

    def add(node: Node) -> None:
        for value in node.inputs:
            if value.node in views:
                add(value.node)
        full[node] = None
    for node in nodes:
        add(node)
    return list(full)


def _is_worth_it(group: Group) -> bool:
    kinds = [kind_of(node) for node in group.nodes]
    return "anchor" in kinds or "reduce" in kinds or kinds.count("map") > 1
