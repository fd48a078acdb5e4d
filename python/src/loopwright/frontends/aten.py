"""A graph of ATen's operations (torch.fx, as AOTAutograd gives it) in the words of the rest: one node of
torch's may be several here, each with it as origin. What has no words becomes a node of no kind."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import signature
from math import isfinite, prod
from typing import Any

import torch

from .graph import Graph, Node, Value

aten = torch.ops.aten


class _NoWords(Exception):
    pass


@dataclass(frozen=True)
class _Layout:
    """Of convolutions: batch and features first (of weights: features out and in), then pixels."""

    lhs_spec: tuple[int, ...]
    rhs_spec: tuple[int, ...]
    out_spec: tuple[int, ...]


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Inductor's, and of what it keeps whole but a program says in parts."""
    from torch._decomp import get_decompositions
    from torch._inductor.decomposition import select_decomp_table

    own = get_decompositions([aten.addmm, aten.baddbmm, aten.native_layer_norm])
    return {**select_decomp_table(), **own, aten.mean.dim: _mean, aten.var_mean.correction: _var_mean}


# The others are added up in a wider type, which the parts would not be.
_ROUNDED_LATE = (torch.float32, torch.float64)


def _mean(x: Any, dim: Any, keepdim: bool = False, *, dtype: Any = None) -> Any:
    if not dim or dtype is not None or x.dtype not in _ROUNDED_LATE:
        return NotImplemented
    return aten.sum.dim_IntList(x, dim, keepdim) / prod(x.shape[d] for d in dim)


def _var_mean(x: Any, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    if x.dtype not in _ROUNDED_LATE:
        return NotImplemented
    dims = dim or list(range(x.dim()))
    count = prod(x.shape[d] for d in dims)
    mean = aten.sum.dim_IntList(x, dims, True) / count
    centred = x - mean
    left = max(0, count - (1 if correction is None else correction))
    variance = aten.sum.dim_IntList(centred * centred, dims, keepdim) / left
    return variance, mean if keepdim else aten.sum.dim_IntList(x, dims, False) / count


def flatten(module: torch.fx.GraphModule) -> tuple[Graph, dict[Value, torch.fx.Node]]:
    """And of each value that torch has, its node there."""
    reader = _Reader()
    for node in module.graph.nodes:
        reader.take(node)
    return reader.graph, {value: node for node, value in reader.known.items()}


class _Reader:
    def __init__(self) -> None:
        self.graph = Graph([], [], [], [])
        self.known: dict[torch.fx.Node, Value] = {}
        self.origin: Any = None

    def take(self, node: torch.fx.Node) -> None:
        self.origin = node
        if node.op == "placeholder":
            self.known[node] = _value(node.meta.get("val"))
            self.graph.inputs.append(self.known[node])
        elif node.op == "output":
            self.graph.outputs = [self.known[n] for n in node.all_input_nodes]
        elif node.op == "call_function" and str(node.target) in _WORDS:
            done = len(self.graph.nodes)
            words, result = _WORDS[str(node.target)], _value(node.meta["val"])
            try:
                signature(words).bind(self, result, *node.args, **node.kwargs)
                self.known[node] = words(self, result, *node.args, **node.kwargs)
            except (_NoWords, TypeError):  # the latter: it has arguments that the words have not
                del self.graph.nodes[done:]
                self.unknown(node)
        else:
            self.unknown(node)

    def unknown(self, node: torch.fx.Node) -> None:
        self.known[node] = _value(node.meta.get("val"))
        inputs = [self.known[n] for n in node.all_input_nodes]
        self.graph.add(Node(str(node.target), {}, inputs, origin=node), [self.known[node]])

    def give(self, name: str, inputs: Sequence[Value], shape: Sequence[int], dtype: str,
             **params: Any) -> Value:
        value = Value(tuple(shape), dtype)
        self.graph.add(Node(name, params, list(inputs), origin=self.origin), [value])
        return value

    def value(self, argument: Any, dtype: str) -> Value:
        """A tensor, or a number as one of that type."""
        if isinstance(argument, torch.fx.Node):
            return self.known[argument]
        if not isinstance(argument, (bool, int, float)) or not isfinite(argument):
            raise _NoWords
        if dtype.startswith(("float", "bfloat")):
            return Value((), dtype, float(argument))
        if dtype == "bool":
            return Value((), dtype, bool(argument))
        limits = torch.iinfo(getattr(torch, dtype))
        if argument != int(argument) or not limits.min <= argument <= limits.max:
            raise _NoWords
        return Value((), dtype, int(argument))

    def along(self, value: Value, rank: int) -> Value:
        """With ones before its dimensions."""
        if value.literal is not None or len(value.shape) in (0, rank):
            return value
        return self.reshaped(value, (1,) * (rank - len(value.shape)) + value.shape)

    def reshaped(self, value: Value, shape: Sequence[int]) -> Value:
        return self.give("reshape", [value], shape, value.dtype)


def _value(fake: Any) -> Value:
    """Of no type the language has: what is no tensor of strided memory and known shape."""
    if not isinstance(fake, torch.Tensor) or fake.layout != torch.strided:
        return Value((), "none")
    return Value(tuple(fake.shape), str(fake.dtype).removeprefix("torch."))


def _map(name: str, count: int = 2, compares: bool = False) -> Callable[..., Value]:
    """Elementwise; `compares`: the operands have a type of their own."""
    def words(reader: _Reader, result: Value, *arguments: Any, alpha: Any = 1) -> Value:
        if len(arguments) != count or alpha != 1:
            raise _NoWords
        tensors = [reader.known[a] for a in arguments if isinstance(a, torch.fx.Node)]
        dtype = tensors[0].dtype if compares else result.dtype
        operands = [reader.value(a, dtype) for a in arguments]
        return _elementwise(reader, name, operands, result, dtype)
    return words


def _elementwise(reader: _Reader, name: str, operands: Sequence[Value], result: Value,
                 dtype: str | None = None, **params: Any) -> Value:
    """`dtype`: of the operands, the result's unless it is said."""
    if any(operand.dtype != (dtype or result.dtype) for operand in operands):
        raise _NoWords
    aligned = [reader.along(operand, len(result.shape)) for operand in operands]
    return reader.give(name, aligned, result.shape, result.dtype, **params)


def _bounded(reader: _Reader, result: Value, x: Any, low: Any = None, high: Any = None) -> Value:
    value = reader.value(x, result.dtype)
    for name, bound in (("max", low), ("min", high)):
        if bound is not None:
            value = _elementwise(reader, name, [value, reader.value(bound, result.dtype)], result)
    return value


def _power(reader: _Reader, result: Value, x: Any, exponent: Any) -> Value:
    value = reader.value(x, result.dtype)
    if not isinstance(exponent, (int, float)) or not isfinite(exponent):
        raise _NoWords
    if exponent == 0.5:
        return _elementwise(reader, "sqrt", [value], result)
    if exponent == int(exponent) and 1 <= exponent <= 8:
        return _elementwise(reader, "integer_pow", [value], result, y=int(exponent))
    return _elementwise(reader, "pow", [value, reader.value(exponent, result.dtype)], result)


def _where(reader: _Reader, result: Value, condition: Any, yes: Any, no: Any) -> Value:
    choice = reader.value(condition, "bool")
    values = [reader.value(x, result.dtype) for x in (no, yes)]
    if choice.dtype != "bool" or any(value.dtype != result.dtype for value in values):
        raise _NoWords
    aligned = [reader.along(value, len(result.shape)) for value in (choice, *values)]
    return reader.give("select_n", aligned, result.shape, result.dtype)


def _converted(reader: _Reader, result: Value, x: Any, _dtype: Any) -> Value:
    value = reader.known[x]
    name = "copy" if value.dtype == result.dtype else "convert_element_type"
    return reader.give(name, [value], result.shape, result.dtype)


def _number(reader: _Reader, result: Value, *arguments: Any, **options: Any) -> Value:
    """full(shape, x), scalar_tensor(x): a literal wherever it is read."""
    return Value(result.shape, result.dtype, reader.value(arguments[-1], result.dtype).literal)


def _reshape(reader: _Reader, result: Value, x: Any, *_: Any) -> Value:
    return reader.reshaped(reader.known[x], result.shape)


def _copy(reader: _Reader, result: Value, x: Any, *_: Any, **options: Any) -> Value:
    return reader.give("copy", [reader.known[x]], result.shape, result.dtype)


def _permute(reader: _Reader, result: Value, x: Any, order: Any) -> Value:
    rank = len(result.shape)
    return reader.give("transpose", [reader.known[x]], result.shape, result.dtype,
                       permutation=tuple(d % rank for d in order))


def _expand(reader: _Reader, result: Value, x: Any, *_: Any, **options: Any) -> Value:
    value = reader.known[x]
    first = len(result.shape) - len(value.shape)
    return reader.give("broadcast_in_dim", [value], result.shape, result.dtype,
                       broadcast_dimensions=tuple(range(first, len(result.shape))))


def _slice(reader: _Reader, result: Value, x: Any, dim: int = 0, start: Any = None, end: Any = None,
           step: int = 1) -> Value:
    value = reader.known[x]
    starts, strides = [0] * len(value.shape), [1] * len(value.shape)
    size = value.shape[dim]
    start = start or 0
    starts[dim] = min(max(start + size, 0) if start < 0 else start, size)
    strides[dim] = step
    return reader.give("slice", [value], result.shape, result.dtype, start_indices=tuple(starts),
                       strides=tuple(strides))


def _select(reader: _Reader, result: Value, x: Any, dim: int, index: int) -> Value:
    value = reader.known[x]
    dim %= len(value.shape)
    shape, starts = list(value.shape), [0] * len(value.shape)
    starts[dim] = index % shape[dim]
    shape[dim] = 1
    one = reader.give("slice", [value], shape, value.dtype, start_indices=tuple(starts), strides=None)
    return reader.reshaped(one, result.shape)


def _reduction(name: str) -> Callable[..., Value]:
    def words(reader: _Reader, result: Value, x: Any, dims: Any = None, keepdim: bool = False,
              dtype: Any = None) -> Value:
        value = reader.known[x]
        if dtype is not None or value.dtype != result.dtype:
            raise _NoWords
        rank = len(value.shape)
        axes = tuple(sorted(d % rank for d in (dims or range(rank))))
        kept = [size for d, size in enumerate(value.shape) if d not in axes]
        reduced = reader.give(name, [value], kept, result.dtype, axes=axes)
        return reader.reshaped(reduced, result.shape) if keepdim else reduced
    return words


def _product(batch: int) -> Callable[..., Value]:
    def words(reader: _Reader, result: Value, a: Any, b: Any) -> Value:
        leading = tuple(range(batch))
        return reader.give("dot_general", [reader.known[a], reader.known[b]], result.shape,
                           result.dtype, dimension_numbers=(((batch + 1,), (batch,)),
                                                            (leading, leading)))
    return words


def _convolution(reader: _Reader, result: Value, x: Any, weight: Any, bias: Any, stride: Any,
                 padding: Any, dilation: Any, transposed: bool, output_padding: Any,
                 groups: int) -> Value:
    if transposed:
        raise _NoWords
    rank = len(result.shape)
    spatial, layout = rank - 2, _Layout(*[tuple(range(rank))] * 3)

    def each(sizes: Any) -> tuple[int, ...]:
        return tuple(sizes) * spatial if len(sizes) == 1 else tuple(sizes)
    value = reader.give(
        "conv_general_dilated", [reader.known[x], reader.known[weight]], result.shape, result.dtype,
        dimension_numbers=layout, window_strides=each(stride), rhs_dilation=each(dilation),
        lhs_dilation=(1,) * spatial, padding=[(p, p) for p in each(padding)],
        feature_group_count=groups, batch_group_count=1)
    if bias is None:
        return value
    shift = reader.reshaped(reader.known[bias], (1, result.shape[1]) + (1,) * spatial)
    return _elementwise(reader, "add", [value, shift], result)


_WORDS: dict[str, Callable[..., Value]] = {
    "prims.convert_element_type.default": _converted, "aten.where.self": _where,
    "aten.relu.default": lambda reader, result, x: _bounded(reader, result, x, 0),
    "aten.clamp.default": _bounded, "aten.clamp_min.default": _bounded,
    "aten.clamp_max.default": lambda reader, result, x, high: _bounded(reader, result, x, None, high),
    "aten.pow.Tensor_Scalar": _power,
    "aten.reciprocal.default": lambda reader, result, x: _elementwise(
        reader, "div", [reader.value(1, result.dtype), reader.known[x]], result),
    "aten.full.default": _number, "aten.scalar_tensor.default": _number,
    "aten.view.default": _reshape, "aten.unsqueeze.default": _reshape,
    "aten.squeeze.dim": _reshape, "aten.squeeze.dims": _reshape, "aten.squeeze.default": _reshape,
    "aten.clone.default": _copy, "aten.permute.default": _permute,
    "aten.expand.default": _expand, "aten.slice.Tensor": _slice, "aten.select.int": _select,
    "aten.sum.dim_IntList": _reduction("reduce_sum"), "aten.sum.default": _reduction("reduce_sum"),
    "aten.amax.default": _reduction("reduce_max"), "aten.amin.default": _reduction("reduce_min"),
    "aten.mm.default": _product(0), "aten.bmm.default": _product(1),
    "aten.convolution.default": _convolution,
    **{f"aten.{name}.Tensor": _map(name) for name in ("add", "sub", "mul", "div")},
    **{f"aten.{name}.{overload}": _map(name, compares=True)
       for name in ("eq", "ne", "lt", "le", "gt", "ge") for overload in ("Tensor", "Scalar")},
    **{f"aten.{name}.default": _map(word) for name, word in {
        "maximum": "max", "minimum": "min", "logical_and": "and", "logical_or": "or"}.items()},
    **{f"aten.{name}.default": _map(word, 1) for name, word in {
        "exp": "exp", "log": "log", "tanh": "tanh", "sigmoid": "logistic", "erf": "erf",
        "sqrt": "sqrt", "rsqrt": "rsqrt", "abs": "abs", "floor": "floor", "ceil": "ceil",
        "neg": "neg", "logical_not": "not", "log1p": "log1p"}.items()},
}
