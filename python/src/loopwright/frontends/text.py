"""A group of nodes as the text of an op."""
from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count
from math import prod
from typing import Any

from .graph import Node, Value

# The value at an index, as an expression of it.
Read = Callable[[Sequence[str]], str]

TYPES = {"float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "int64": "i64",
         "int32": "i32", "int16": "i16", "int8": "i8", "uint8": "u8", "bool": "bool"}
_BINARY = {"add": "+", "add_any": "+", "sub": "-", "mul": "*", "eq": "==", "ne": "!=", "lt": "<",
           "le": "<=", "gt": ">", "ge": ">=", "and": "&&", "or": "||", "div": "/"}
_UNARY = {"exp": "exp", "log": "log", "tanh": "tanh", "logistic": "sigmoid", "erf": "erf",
          "sqrt": "sqrt", "rsqrt": "rsqrt", "abs": "abs", "floor": "floor", "ceil": "ceil"}
_REDUCE = {"reduce_sum": "sum", "reduce_max": "max", "reduce_min": "min", "reduce_prod": "prod"}
_VIEWS = {"broadcast_in_dim", "reshape", "squeeze", "transpose", "slice", "copy", "stop_gradient"}
_MAPS = {*_BINARY, *_UNARY, "max", "min", "neg", "not", "integer_pow", "square", "pow",
         "select_n", "convert_element_type", "clamp", "log1p"}
_NEUTRAL = {"max": float("-inf"), "min": float("inf")}
_MOST_RANK = 12                            # of the language


class Unsupported(Exception):
    """The language, or this translator, has no words for it."""


def kind_of(node: Node) -> str:
    """view, map, reduce, anchor, or "": it is left to the framework."""
    for value in (*node.inputs, *node.outputs):
        plain = str(value.dtype) in TYPES and len(value.shape) <= _MOST_RANK and all(
            isinstance(extent, int) and extent > 0 for extent in value.shape)
        if not plain:
            return ""
    name, params = node.name, node.params
    if name in ("dot_general", "conv_general_dilated"):
        wrong = name == "conv_general_dilated" and params["batch_group_count"] != 1
        return "" if wrong or str(node.inputs[0].dtype) != str(node.inputs[1].dtype) else "anchor"
    if name in ("and", "or", "not") and str(node.outputs[0].dtype) != "bool":
        return ""
    if name == "select_n" and (len(node.inputs) != 3 or str(node.inputs[0].dtype) != "bool"):
        return ""
    if name == "div" and not str(node.outputs[0].dtype).startswith(("float", "bfloat")):
        return ""                          # XLA's truncates, the language's floors
    if name == "convert_element_type" and str(node.outputs[0].dtype) == "bool":
        return ""
    if name == "integer_pow" and params["y"] < 0:
        return ""
    if name in _REDUCE:
        return "reduce" if params["axes"] else ""
    return "view" if name in _VIEWS else "map" if name in _MAPS else ""


def op_text(nodes: Sequence[Node], inputs: Sequence[Value], outputs: Sequence[Value],
            name: str) -> str:
    """`inputs` become arguments in their order, then `outputs`, in that of the nodes that give them."""
    return _Writer(nodes, inputs, outputs).text(name)


class _Writer:
    def __init__(self, nodes: Sequence[Node], inputs: Sequence[Value], outputs: Sequence[Value]):
        self.nodes, self.inputs, self.outputs = nodes, inputs, outputs
        self.lines: list[str] = []
        self.reads: dict[Value, Read] = {}
        self.tensors: set[Value] = set(inputs)     # the rest are expressions of them
        self.uses = Counter(v for node in nodes for v in node.inputs)
        self.largest: dict[Value, int] = {}        # elements of what is made of it, by way of views too
        for node in reversed(nodes):
            size = max(self.largest.get(v, 0) if kind_of(node) == "view" else prod(v.shape)
                       for v in node.outputs)
            for value in node.inputs:
                self.largest[value] = max(size, self.largest.get(value, 0))
        self.of_inputs: set[Value] = set()         # elementwise of nothing that is computed
        self.waiting: set[Value] = set()           # products for a view to define
        self.names = count()

    def text(self, name: str) -> str:
        for i, value in enumerate(self.inputs):
            self.lines.append(f"in X{i}: {_type(value)}[{', '.join(map(str, value.shape))}]")
            self.reads[value] = _tensor(f"X{i}")
        for node in self.nodes:
            (result,) = node.outputs
            read = self.value_of(node)
            # An elementwise value that is read once is written where it is read, an index always; but
            # what inputs alone make, scales of channels, once for all elements.
            kind = kind_of(node)
            if kind in ("map", "view") and all(
                    v in self.inputs or v in self.of_inputs or v.literal is not None
                    for v in node.inputs):
                self.of_inputs.add(result)
            if self.is_for_view(node):
                self.reads[result] = read
                self.waiting.add(result)
                continue
            inline = kind == "view" and not self.waiting & set(node.inputs)
            if kind == "map" and self.uses[result] == 1:
                inline = (result not in self.of_inputs or
                          prod(result.shape) == self.largest[result])
            if result in self.outputs or not inline:
                read = self.define(result, read)
            self.reads[result] = read
        return "\n  ".join([f"op {name}() {{", *self.lines]) + "\n}\n"

    def is_for_view(self, node: Node) -> bool:
        """Whether it is a product, or a view of one, that is read by one view of all its elements, by plain
        indices: it is written as that has it, so that no copy follows."""
        (result,) = node.outputs
        product = kind_of(node) == "anchor" or bool(self.waiting & set(node.inputs))
        readers = [other for other in self.nodes if result in other.inputs]
        if not product or result in self.outputs or [kind_of(one) for one in readers] != ["view"]:
            return False
        shape = readers[0].outputs[0].shape
        index = _index_of_view(readers[0])([f"i{d}" for d in range(len(shape))])
        return prod(shape) == prod(result.shape) and not any(
            letter in axis for axis in index for letter in "/%")

    def define(self, value: Value, read: Read) -> Read:
        axes = [f"i{d}" for d in range(len(value.shape))]
        ranges = ", ".join(f"{axis}: {extent}" for axis, extent in zip(axes, value.shape))
        name = f"V{next(self.names)}"
        out = "out " if value in self.outputs else ""
        self.lines.append(f"{out}{name}[{ranges}] = {_bare(read(axes))}")
        self.tensors.add(value)
        return _tensor(name)

    def at(self, value: Value) -> Read:
        if value.literal is not None:
            return lambda index: _literal(value)
        return self.reads[value]

    def along(self, value: Value, shape: Sequence[int]) -> Read:
        """At an index of a result of that shape, along which the value may be repeated."""
        read = self.at(value)
        if value.shape == tuple(shape) or value.literal is not None:
            return read
        if not value.shape:
            return lambda index: read(())
        repeated = [one == 1 and other != 1 for one, other in zip(value.shape, shape)]
        return lambda index: read(["0" if again else axis for axis, again in zip(index, repeated)])

    def tensor(self, value: Value, whole: bool) -> Read:
        """A read that is one of a tensor, not an expression. `whole`: of all of it, not a view, since
        pad() asks for the bounds of the tensor that it reads."""
        read = self.at(value)
        probe = read([f"p{d}" for d in range(len(value.shape))])
        plain = value in self.tensors if whole else probe.startswith(("X", "V"))
        if value.literal is None and not plain:
            read = self.reads[value] = self.define(value, read)
        return read

    def value_of(self, node: Node) -> Read:
        name, shape = node.name, node.outputs[0].shape
        if name in _MAPS:
            return self.map(node, [self.along(v, shape) for v in node.inputs])
        if name in _VIEWS:
            a, where = self.at(node.inputs[0]), _index_of_view(node)
            return lambda i: a(where(i))
        if name in _REDUCE:
            return self.reduction(node)
        if name == "dot_general":
            return self.product(node)
        assert name == "conv_general_dilated"
        return self.convolution(node)

    def map(self, node: Node, operands: Sequence[Read]) -> Read:
        name, result, a = node.name, node.outputs[0], operands[0]
        for value, other in zip(node.inputs, reversed(operands)):
            if name in _NEUTRAL and value.literal is not None and value.literal == _NEUTRAL[name]:
                return other               # softmax's, which JAX begins with
        if name in ("max", "min", "pow"):
            return lambda i: f"{name}({_bare(a(i))}, {_bare(operands[1](i))})"
        if name in _BINARY:
            return lambda i: f"({a(i)} {_BINARY[name]} {operands[1](i)})"
        if name in _UNARY:
            return lambda i: f"{_UNARY[name]}({_bare(a(i))})"
        if name in ("neg", "not"):
            return lambda i: f"({'-' if name == 'neg' else '!'}{a(i)})"
        if name == "log1p":                # exact where 1 + x rounds (W. Kahan's)
            x = self.tensor(node.inputs[0], whole=False)
            u = self.define(Value(result.shape, result.dtype), lambda i: f"1 + {x(i)}")
            return lambda i: (f"where({u(i)} == 1, {x(i)}, log({u(i)}) * "
                              f"where({u(i)} - 1 == {x(i)}, 1, {x(i)} / ({u(i)} - 1)))")
        if name == "convert_element_type":
            return lambda i: f"cast({_type(result)}, {_bare(a(i))})"
        if name == "clamp":
            low, x, high = operands
            return lambda i: f"clamp({_bare(x(i))}, {_bare(low(i))}, {_bare(high(i))})"
        if name == "select_n":
            condition, no, yes = operands
            literals = all(v.literal is not None for v in node.inputs[1:])
            wrap = f"cast({_type(result)}, {{}})" if literals else "{}"
            return lambda i: (f"where({_bare(condition(i))}, {wrap.format(_bare(yes(i)))}, "
                              f"{wrap.format(_bare(no(i)))})")
        assert name in ("integer_pow", "square")
        times = node.params.get("y", 2)
        if times == 0:
            raise Unsupported("a power of zero")
        factor = self.tensor(node.inputs[0], whole=False)
        return lambda i: "(" + " * ".join([factor(i)] * times) + ")"

    def reduction(self, node: Node) -> Read:
        a, shape = self.at(node.inputs[0]), node.inputs[0].shape
        axes = sorted(node.params["axes"])
        ranges = ", ".join(f"r{axis}: {shape[axis]}" for axis in axes)
        cast = _cast_of_sum(node) if node.name in ("reduce_sum", "reduce_prod") else "{}"

        def read(index: Sequence[str]) -> str:
            kept = iter(index)
            full = [f"r{d}" if d in axes else next(kept) for d in range(len(shape))]
            return cast.format(f"{_REDUCE[node.name]}[{ranges}]({_bare(a(full))})")
        return read

    def product(self, node: Node) -> Read:
        (left, right), (left_batch, right_batch) = node.params["dimension_numbers"]
        a, b = (self.at(v) for v in node.inputs)
        ranks = [len(v.shape) for v in node.inputs]
        ranges = ", ".join(f"k{n}: {node.inputs[0].shape[d]}" for n, d in enumerate(left))
        free = [[d for d in range(ranks[0]) if d not in (*left, *left_batch)],
                [d for d in range(ranks[1]) if d not in (*right, *right_batch)]]
        cast = _cast_of_sum(node)

        def read(index: Sequence[str]) -> str:
            batch = len(left_batch)
            one, other = [""] * ranks[0], [""] * ranks[1]
            for n, (d, e) in enumerate(zip(left_batch, right_batch)):
                one[d] = other[e] = index[n]
            for n, (d, e) in enumerate(zip(left, right)):
                one[d] = other[e] = f"k{n}"
            for n, d in enumerate(free[0]):
                one[d] = index[batch + n]
            for n, d in enumerate(free[1]):
                other[d] = index[batch + len(free[0]) + n]
            body = f"{a(one)} * {b(other)}"
            return cast.format(f"sum[{ranges}]({body})" if left else f"({body})")
        return read

    def convolution(self, node: Node) -> Read:
        params, (image, window) = node.params, node.inputs
        numbers = params["dimension_numbers"]
        lhs, rhs, out = numbers.lhs_spec, numbers.rhs_spec, numbers.out_spec
        groups = params["feature_group_count"]
        channels = window.shape[rhs[1]]    # of one group
        padded = any(low or high for low, high in params["padding"])
        a, b = self.tensor(image, whole=padded), self.at(window)
        spatial = range(len(lhs) - 2)
        ranges = ", ".join([*(f"w{d}: {window.shape[rhs[2 + d]]}" for d in spatial),
                            f"c: {channels}"])
        cast = _cast_of_sum(node)

        def read(index: Sequence[str]) -> str:
            one, other = [""] * len(lhs), [""] * len(rhs)
            feature = index[out[1]]
            one[lhs[0]] = index[out[0]]
            one[lhs[1]] = "c" if groups == 1 else (
                f"{feature} / {window.shape[rhs[0]] // groups} * {channels} + c")
            other[rhs[0]], other[rhs[1]] = feature, "c"
            between = []                   # the pixels: where a dilated image has its zeros
            for d in spatial:
                other[rhs[2 + d]] = f"w{d}"
                stride, dilation = params["window_strides"][d], params["rhs_dilation"][d]
                low, apart = params["padding"][d][0], params["lhs_dilation"][d]
                text = _scaled(index[out[2 + d]], stride) + " + " + _scaled(f"w{d}", dilation)
                text += f" - {low}" if low > 0 else f" + {-low}" if low else ""
                if apart > 1:
                    between.append(f"({text}) % {apart} == 0")
                    text = f"({text}) / {apart}"
                one[lhs[2 + d]] = text
            pixel = f"pad({a(one)}, 0)" if padded else a(one)
            product = f"{pixel} * {b(other)}"
            if between:
                product = f"where({' && '.join(between)}, {product}, 0)"
            return cast.format(f"sum[{ranges}]({product})")
        return read


def _tensor(name: str) -> Read:
    return lambda index: f"{name}[{', '.join(index)}]"


def _type(value: Value) -> str:
    return TYPES[str(value.dtype)]


def _bare(text: str) -> str:
    """Without parentheses around all of it."""
    if not text.startswith("("):
        return text
    depth = 0
    for i, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return text[1:-1] if i == len(text) - 1 else text
    return text


def _literal(value: Value) -> str:
    scalar = value.literal.item() if hasattr(value.literal, "item") else value.literal
    if isinstance(scalar, bool):
        return "true" if scalar else "false"
    if scalar != scalar:
        raise Unsupported("a constant that is NaN")
    if scalar in (float("inf"), float("-inf")):
        raise Unsupported("a constant that is infinite")
    text = str(scalar)
    return f"({text})" if text.startswith("-") else text


def _cast_of_sum(node: Node) -> str:
    """Sums are of the wide type in the language, of what it is told in JAX."""
    read, given = _type(node.inputs[0]), _type(node.outputs[0])
    wide = {"f16": "f32", "bf16": "f32", "i8": "i32", "u8": "i32", "i16": "i32"}.get(read, read)
    return "{}" if given == wide else f"cast({given}, {{}})"


def _whole(index: str) -> str:
    return index if index.isalnum() else f"({index})"


def _scaled(index: str, by: int) -> str:
    return index if by == 1 else f"{_whole(index)} * {by}"


def _index_of_view(node: Node) -> Callable[[Sequence[str]], list[str]]:
    """From an index of the result to that of the operand."""
    shape, result = node.inputs[0].shape, node.outputs[0].shape
    if node.name == "broadcast_in_dim":
        places = node.params["broadcast_dimensions"]
        return lambda i: ["0" if shape[d] == 1 else i[at] for d, at in enumerate(places)]
    if node.name == "transpose":
        order = node.params["permutation"]
        return lambda i: [i[order.index(d)] for d in range(len(shape))]
    if node.name == "slice":
        starts = node.params["start_indices"]
        strides = node.params["strides"] or (1,) * len(shape)
        return lambda i: [_scaled(axis, stride) + (f" + {start}" if start else "")
                          for axis, start, stride in zip(i, starts, strides)]
    return lambda i: _reshaped(shape, result, i)


def _reshaped(shape: Sequence[int], result: Sequence[int], index: Sequence[str]) -> list[str]:
    """Dimensions are matched in runs of equal size; within a run by one linear index."""
    places: list[str] = []
    d = e = 0
    while d < len(shape) or e < len(result):
        first_d, first_e = d, e
        d, e = min(d + 1, len(shape)), min(e + 1, len(result))
        while prod(shape[first_d:d]) != prod(result[first_e:e]):
            if prod(shape[first_d:d]) < prod(result[first_e:e]):
                d += 1
            else:
                e += 1
        long = [n for n in range(first_e, e) if result[n] > 1]
        linear = "0"
        for n in long:
            linear = index[n] if linear == "0" else f"{_whole(linear)} * {result[n]} + {index[n]}"
        left = prod(shape[first_d:d])
        for n in range(first_d, d):
            left //= shape[n]
            if shape[n] == 1:
                places.append("0")
            elif shape[n] == prod(shape[first_d:d]):
                places.append(linear)
            else:
                over = f"{_whole(linear)} / {left}" if left > 1 else linear
                outermost = prod(shape[first_d:n]) == 1
                places.append(over if outermost else f"{_whole(over)} % {shape[n]}")
    return places
