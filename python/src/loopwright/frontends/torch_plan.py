"""A graph of torch's as steps: kernels, and what Inductor makes of the rest."""
from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import getitem
from typing import Any

import torch
from torch._guards import TracingContext, detect_fake_mode, tracing
from torch._inductor.compile_fx import compile_fx_inner
from torch.fx import Node as FxNode

from ..errors import Bug
from ..kernel import Kernel
from ..ops import Op, op
from .aten import flatten
from .graph import Value
from .groups import Group, partition
from .lookup import note_hits
from .text import TYPES

Find = Callable[[Op], "Kernel | None"]


def fits(module: torch.fx.GraphModule, examples: Sequence[Any]) -> bool:
    """Whether all of it is on the CPU, of known shapes, and changes nothing of its inputs."""
    fakes = [node.meta.get("val") for node in module.graph.nodes]
    return (all(isinstance(x, torch.Tensor) for x in examples) and
            all(x.device.type == "cpu" and all(isinstance(size, int) for size in x.shape)
                for x in (*examples, *fakes) if isinstance(x, torch.Tensor)) and
            not any(node.op == "call_function" and
                    getattr(getattr(node.target, "_schema", None), "is_mutable", False)
                    for node in module.graph.nodes))


def plan(module: torch.fx.GraphModule, static: Sequence[int], find: Find) -> Callable[..., Any] | None:
    """A function of a list of tensors; None: no part has a kernel."""
    graph, nodes = flatten(module)
    groups = partition(graph)
    constants = {graph.inputs[i] for i in static}
    split = _split_nodes(groups, nodes)
    kernels: dict[Group, Kernel] = {}
    for group in groups:
        if group.text and not split & set(group.nodes) and all(
                value in nodes for value in (*group.inputs, *group.outputs)):
            names = tuple(f"X{i}" for i, v in enumerate(group.inputs) if v in constants)
            kernel = find(op(text=group.text, const=names))
            if kernel is not None:
                _check(kernel, [*group.inputs, *group.outputs])
                kernels[group] = kernel
    note_hits(groups, len(kernels))
    if not kernels:
        return None
    return _Planner(module, nodes, constants).planned(groups, kernels)


def _check(kernel: Kernel, values: Sequence[Value]) -> None:
    """That the translator and the language mean the same."""
    for arg, value in zip(kernel.args, values, strict=True):
        if arg.shape != value.shape or arg.dtype != TYPES[str(value.dtype)]:
            raise Bug(f"{kernel.name}: {arg} is {value.dtype}{list(value.shape)} in the graph")


def _split_nodes(groups: Sequence[Group], nodes: dict[Value, FxNode]) -> set[Any]:
    """Those whose node of torch's is in more than one group: it has to be run whole."""
    home: dict[FxNode, set[Group]] = {}
    for group in groups:
        for node in group.nodes:
            home.setdefault(node.origin, set()).add(group)
    times = Counter(node for group in groups for node in group.nodes)
    return {node for node in times if times[node] == 1 and len(home[node.origin]) > 1}


class _Planner:
    def __init__(self, module: torch.fx.GraphModule, nodes: dict[Value, FxNode],
                 constants: set[Value]):
        self.module, self.nodes = module, nodes
        self.constants = {nodes[value] for value in constants}
        self.inputs = [n for n in module.graph.nodes if n.op == "placeholder"]
        (self.output,) = (n for n in module.graph.nodes if n.op == "output")
        self.ready: set[FxNode] = set(self.inputs)
        self.steps: list[_KernelStep | _RestStep] = []

    def planned(self, groups: Sequence[Group], kernels: dict[Group, Kernel]) -> Callable[..., Any]:
        waiting: list[FxNode] = []
        for group in groups:
            if group not in kernels:
                waiting += (node.origin for node in group.nodes)
                continue
            inputs = [self.nodes[value] for value in group.inputs]
            self.rest([*waiting, *inputs])
            waiting = []
            self.steps.append(_KernelStep(kernels[group], inputs,
                                          [self.nodes[value] for value in group.outputs],
                                          [node in self.constants for node in inputs]))
            self.ready |= {self.nodes[value] for value in group.outputs}
        self.rest([*waiting, *self.output.all_input_nodes])
        return self.function()

    def rest(self, wanted: Sequence[FxNode]) -> None:
        """What is not ready of these, and of what they read, as one part of Inductor's."""
        part: set[FxNode] = set()
        left = [node for node in wanted if node not in self.ready]
        while left:
            node = left.pop()
            if node not in part:
                part.add(node)
                left += [n for n in node.all_input_nodes if n not in self.ready]
                left += [n for n in node.users if n.target is getitem]     # of a tuple: with it
        if part:
            nodes = [n for n in self.module.graph.nodes if n in part]
            self.steps.append(_RestStep(self.module, nodes, self.constants))
            self.ready |= part

    def function(self) -> Callable[..., Any]:
        inputs, steps = self.inputs, _with_last_uses(self.steps, self.output.all_input_nodes)
        results = self.output.args[0]
        likes = [node.meta["val"].stride() if isinstance(node, FxNode) else None for node in results]

        def run(arguments: list[Any]) -> list[Any]:
            known = dict(zip(inputs, arguments))
            arguments.clear()
            for step, done in steps:
                step(known)
                for node in done:
                    del known[node]        # its memory serves the next
            return [node if like is None else _laid(known[node], like)
                    for node, like in zip(results, likes)]
        run._boxed_call = True             # type: ignore[attr-defined]
        return run


def _with_last_uses(steps: Sequence[_KernelStep | _RestStep], results: Sequence[FxNode],
                    ) -> list[tuple[_KernelStep | _RestStep, list[FxNode]]]:
    """Each with what nothing reads after it."""
    kept, pairs = set(results), []
    for step in reversed(steps):
        met = dict.fromkeys([*step.inputs, *step.outputs])
        pairs.append((step, [node for node in met if node not in kept]))
        kept |= set(met)
    return pairs[::-1]


def _laid(tensor: torch.Tensor, strides: Sequence[int]) -> torch.Tensor:
    if tensor.stride() == strides:
        return tensor
    shape = [1 if stride == 0 else size for size, stride in zip(tensor.shape, strides)]
    laid = torch.empty_strided(shape, strides, dtype=tensor.dtype)
    laid.copy_(tensor[tuple(slice(0, size) for size in shape)])
    return laid.expand(tensor.shape)       # where elements are repeated, each is there once


@dataclass
class _KernelStep:
    kernel: Kernel
    inputs: list[FxNode]
    outputs: list[FxNode]
    constant: list[bool]

    def __post_init__(self) -> None:
        fakes = [node.meta["val"] for node in self.outputs]
        self.shapes = [(tuple(fake.shape), fake.dtype) for fake in fakes]
        self.bound: Kernel | None = None
        # That are packed; held, since the place of one that is gone may be the next one's.
        self.weights: list[torch.Tensor] = []
        self.versions: list[int] = []
        self.names = [arg.name for arg in self.kernel.args if arg.role == "in"]

    def __call__(self, known: dict[FxNode, Any]) -> None:
        results = [torch.empty(shape, dtype=dtype) for shape, dtype in self.shapes]
        out = results[0] if len(results) == 1 else tuple(results)
        kernel = self.kernel if not any(self.constant) else self.of_weights(known)
        kernel(*(known[node].contiguous() for node, fixed in zip(self.inputs, self.constant)
                 if not fixed), out=out)
        known.update(zip(self.outputs, results))

    def of_weights(self, known: dict[FxNode, Any]) -> Kernel:
        tensors = [known[node] for node, fixed in zip(self.inputs, self.constant) if fixed]
        # Tensors of inference mode count no writes: they are packed in each call.
        versions = [-1 if tensor.is_inference() else tensor._version for tensor in tensors]
        same = self.bound is not None and versions == self.versions and -1 not in versions and all(
            one.data_ptr() == other.data_ptr() for one, other in zip(tensors, self.weights))
        if not same:
            names = [name for name, fixed in zip(self.names, self.constant) if fixed]
            self.bound = self.kernel.bind(**{name: tensor.detach().contiguous()
                                             for name, tensor in zip(names, tensors)})
            self.weights, self.versions = tensors, versions
        assert self.bound is not None
        return self.bound


class _RestStep:
    def __init__(self, module: torch.fx.GraphModule, nodes: Sequence[FxNode],
                 constants: set[FxNode]):
        own = set(nodes)
        read = {n: None for node in nodes for n in node.all_input_nodes if n not in own}
        self.inputs = list(read)
        self.outputs = [n for n in nodes if any(user not in own for user in n.users)]
        graph = torch.fx.Graph()
        copies: dict[FxNode, FxNode] = {}
        examples = []
        for node in self.inputs:
            fake = node.meta["val"]
            if node not in constants:      # as it will come, whatever torch would have made
                fake = torch.empty_like(fake, memory_format=torch.contiguous_format)
            examples.append(fake)
            copies[node] = graph.placeholder(node.name)
            copies[node].meta = {**node.meta, "val": fake}
        for node in nodes:
            copies[node] = graph.node_copy(node, lambda n: copies[n])
        graph.output(tuple(copies[n] for n in self.outputs))
        self.strides = [fake.stride() for fake in examples]
        fixed = [i for i, node in enumerate(self.inputs) if node in constants]
        # In a context of its own: the outer one wants to know the results of the whole.
        with tracing(TracingContext(detect_fake_mode(examples))):
            self.function = compile_fx_inner(torch.fx.GraphModule(module, graph), examples,
                                             static_input_idxs=fixed, is_inference=True)

    def __call__(self, known: dict[FxNode, Any]) -> None:
        tensors = [_laid(known[node], strides) for node, strides in zip(self.inputs, self.strides)]
        known.update(zip(self.outputs, self.function(tensors)))
