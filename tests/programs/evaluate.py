"""Evaluates programs with admissible errors (values.py)."""
import math
from types import SimpleNamespace

import numpy as np

import functions
import values
from syntax import ACCUMULATOR, COMPARISONS, fold
from values import Value

MOST_POINTS = 3e6                          # of one reduction's body
# What an index beyond the ends of a dimension stands for.
BORDERS = {"edge": lambda i, n: np.clip(i, 0, n - 1), "wrap": lambda i, n: i % n,
           "reflect": lambda i, n: n - 1 - np.abs(i % max(1, 2 * (n - 1)) - (n - 1))}
BOUNDS = {"min": np.minimum, "max": np.maximum, "abs": np.abs,
          "clamp": lambda i, a, b: np.clip(i, a, b)}


class Refused(Exception):
    """What the language does not allow, or does not say."""


class Scope:
    """Axes by name: each an array of i32 whose last axis is the innermost; a reduction's lie in
    front, so that what does not use them broadcasts."""

    def __init__(self, axes, outer=None):
        self.arrays = dict(outer.arrays) if outer else {}
        self.rank = outer.rank if outer else 0
        self.extents = [extent for _, extent in axes] + (outer.extents if outer else [])
        for name, extent in reversed(axes):
            self.arrays[name] = np.arange(extent).reshape((extent,) + (1,) * self.rank)
            self.rank += 1


# What operations do; plain.py has others.
ADMISSIBLE = SimpleNamespace(
    literal=values.literal, arithmetic=values.arithmetic, negated=values.negated,
    compare=values.compare, either=values.either, cast=values.cast, call=functions.call,
    reduce=functions.reduce)


class Evaluator:
    def __init__(self, program, inputs=None, rules=ADMISSIBLE):
        self.program, self.rules = program, rules
        self.names = program.names()
        self.tensors = dict(inputs or {})  # name: Value

    def run(self):
        for tensor in self.program.computed():
            if tensor.name not in self.tensors:
                self.tensors[tensor.name] = self.compute(tensor)
        return self.tensors

    def extent(self, literal):
        return fold(literal, self.names, integer=True)

    def shape(self, tensor):
        return tuple(self.extent(e) for e in tensor.shape)

    def compute(self, tensor):
        shape = self.shape(tensor)
        scope = Scope(list(zip(tensor.axes, shape)))
        value = self.value(tensor.expression, scope, None)
        return value.map(lambda x: np.array(np.broadcast_to(x, shape)))

    # In the body of a sum what has the body's type is evaluated in the accumulator's: widen is
    # (type, accumulator) there, else None.
    def value(self, node, scope, widen):
        type = node.type
        if widen and type == widen[0] and node.kind in ("binary", "unary", "call", "where"):
            type = widen[1]
        if node.kind == "axis":
            return Value("i32", scope.arrays[node.word])
        if node.kind in ("number", "name"):
            raise Refused("a literal without a type")
        if node.kind == "read":
            return self.widened(self.read(node, scope)[0], widen)
        if node.kind == "pad":
            return self.widened(self.padded(node, scope), widen)
        if node.kind == "border":
            return self.widened(self.read(node.args[0], scope, BORDERS[node.word])[0], widen)
        if node.kind == "reduce":
            return self.widened(self.reduction(node, scope), widen)
        if node.kind == "cast":
            return self.widened(self.converted(node, scope), widen)
        if node.kind == "where":
            condition = self.value(node.args[0], scope, None)
            a, b = (self.operand(arg, type, scope, widen) for arg in node.args[1:])
            shape = np.broadcast_shapes(*(np.shape(v.lo) for v in (condition, a, b)))
            spread = (v.map(lambda x: np.broadcast_to(x, shape)) for v in (condition, a, b))
            return self.rules.either(type, *spread)
        if node.kind == "call":
            args = [self.operand(arg, type, scope, widen) for arg in node.args]
            return self.rules.call(node.word, type, args)
        if node.kind == "unary":
            a = self.operand(node.args[0], type, scope, widen)
            return Value("bool", 1 - a.hi, 1 - a.lo) if node.word == "!" else self.rules.negated(a)
        return self.binary(node, type, scope, widen)

    def binary(self, node, type, scope, widen):
        if node.word in COMPARISONS:
            inner = next(a.type for a in node.args if a.type)
            a, b = (self.operand(arg, inner, scope, None) for arg in node.args)
            return self.rules.compare(node.word, a, b)
        a, b = (self.operand(arg, type, scope, widen) for arg in node.args)
        if node.word in ("&&", "||"):
            f = np.minimum if node.word == "&&" else np.maximum
            return Value("bool", f(a.lo, b.lo), f(a.hi, b.hi))
        return self.rules.arithmetic(node.word, type, a, b)

    def operand(self, node, type, scope, widen):
        if node.type is None:
            return self.rules.literal(type, fold(node, self.names, integer=False))
        return self.value(node, scope, widen)

    def widened(self, value, widen):
        if widen and value.type == widen[0]:
            return self.rules.cast(widen[1], value)
        return value

    def converted(self, node, scope):
        inner = node.args[0]
        if inner.type is None:
            return self.rules.literal(node.word, fold(inner, self.names, integer=False))
        return self.rules.cast(node.word, self.value(inner, scope, None))

    def index(self, node, scope):
        """(least, greatest) arrays of an index expression; equal but in open gathers."""
        if node.type is None:
            return (np.asarray(fold(node, self.names, integer=True)),) * 2
        if node.kind == "axis":
            return (scope.arrays[node.word],) * 2
        if node.kind == "read":
            value = self.read(node, scope)[0]
            return value.lo, value.hi
        if node.kind == "unary":
            lo, hi = self.index(node.args[0], scope)
            return -hi, -lo
        if node.kind == "call":
            return (BOUNDS[node.word](*(self.index(a, scope)[0] for a in node.args)),) * 2
        (a_lo, a_hi), (b_lo, b_hi) = (self.index(a, scope) for a in node.args)
        if node.word == "+":
            return a_lo + b_lo, a_hi + b_hi
        if node.word == "-":
            return a_lo - b_hi, a_hi - b_lo
        if node.word == "*":
            ends = a_lo * b_lo, a_lo * b_hi, a_hi * b_lo, a_hi * b_hi
            return np.minimum.reduce(ends), np.maximum.reduce(ends)
        if a_lo is not a_hi and not np.array_equal(a_lo, a_hi):
            raise Refused("an open index divided")
        r = a_lo // b_lo if node.word == "/" else a_lo % b_lo
        return r, r

    def read(self, node, scope, border=None):
        """The elements, and where the indices lie inside."""
        if node.word not in self.tensors:
            raise Refused(f"{node.word} is not defined yet")
        tensor = self.tensors[node.word]
        inside, indices = np.asarray(True), []
        for n, arg in enumerate(node.args):
            lo, hi = self.index(arg, scope)
            if lo is not hi and not np.array_equal(lo, hi):
                raise Refused("an open index")
            extent = tensor.lo.shape[n]
            if border:
                lo = border(lo, extent)
            inside = inside & (lo >= 0) & (lo < extent)
            indices.append(np.clip(lo, 0, extent - 1))
        value = tensor.map(lambda x: x[tuple(indices)]) if indices else tensor
        return value, inside

    def padded(self, node, scope):
        value, inside = self.read(node.args[0], scope)
        other = self.operand(node.args[1], node.type, scope, None)
        shape = np.broadcast_shapes(np.shape(value.lo), np.shape(inside), np.shape(other.lo))
        value, other = (v.map(lambda x: np.broadcast_to(x, shape)) for v in (value, other))
        condition = Value("bool", np.broadcast_to(inside, shape).astype(np.int64))
        return self.rules.either(node.type, condition, value, other)

    def reduction(self, node, scope):
        axes = [(name, self.extent(e)) for name, e in node.axes]
        inner = Scope(axes, scope)
        body_type = node.args[0].type
        widen = None
        if node.word in ("sum", "prod") and body_type in ACCUMULATOR:
            widen = body_type, ACCUMULATOR[body_type]
        body = self.value(node.args[0], inner, widen)
        body = self.widened(body, widen)
        reduced = [extent for _, extent in axes]
        shape = np.shape(body.lo)
        outer = shape[len(shape) - scope.rank:] if len(shape) >= scope.rank else shape
        full = tuple(reduced) + (1,) * (scope.rank - len(outer)) + tuple(outer)
        if math.prod(full) > MOST_POINTS:
            raise Refused("too large")
        whole = body.map(lambda x: np.broadcast_to(x, full))
        return self.rules.reduce(node.word, node.type, whole, len(axes))
