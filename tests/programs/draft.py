"""A program while it is being drawn.

Every definition is evaluated as soon as it is added: one whose values are too open to judge a
kernel by, or that leave natural magnitudes, is refused, and its motif drawn anew.
"""
import math
import random

import numpy as np

from evaluate import Evaluator, Refused
from inputs import draw
from syntax import FLOATS, INTEGERS, Program, Tensor, cast, fold, lift, name, number, reads
from values import Value, is_float

EXTENTS = (1, 2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 17)
LARGE = (19, 23, 31, 32, 37, 48, 64, 67, 100, 129)
MOST_ELEMENTS = 60000
MOST_MAGNITUDE = {"f16": 4000, "bf16": 1e8, "f32": 1e8, "f64": 1e12}
TYPE_WEIGHTS = {"f32": 12, "f16": 3, "bf16": 3, "f64": 3, "i32": 3, "i64": 2, "i16": 1, "i8": 2,
                "u8": 2}
PARAMETER_NAMES = ("B", "M", "N", "K", "H", "W", "C", "D", "L", "P", "Q", "R", "S", "T")


class Draft:
    def __init__(self, seed, edge=False, const_share=0.3):
        self.random = random.Random(seed)
        self.arrays = np.random.default_rng(seed)
        self.program = Program()
        self.values = {}                   # tensor name: Value
        self.edge, self.const_share = edge, const_share
        self.counter = 0

    # Randomness.
    def chance(self, share):
        return self.random.random() < share

    def pick(self, options):
        return self.random.choice(list(options))

    def type(self, kinds=FLOATS + INTEGERS):
        return self.random.choices(kinds, [TYPE_WEIGHTS[t] for t in kinds])[0]

    def float_type(self):
        return self.type(FLOATS)

    # Extents and names.
    def size(self, literal):
        return fold(lift(literal), self.program.names(), integer=True)

    def extent(self, most=17, least=1):
        """A literal: a number, or a parameter that has this value."""
        options = [e for e in EXTENTS + (LARGE if most > 17 else ()) if least <= e <= most]
        value = self.pick(options)
        names = self.program.names()
        same = [n for n, v in names.items() if v == value and isinstance(v, int)]
        if same and self.chance(0.5):
            return name(self.pick(same))
        if self.chance(0.4):
            return self.parameter(value)
        return number(value)

    def parameter(self, value):
        free = [n for n in PARAMETER_NAMES if n not in self.program.parameters
                and n not in self.program.lets]
        if not free:
            return number(value)
        chosen = self.pick(free)
        self.program.parameters[chosen] = value
        if self.chance(0.3):
            self.program.overrides[chosen] = value
        return name(chosen)

    def let(self, literal):
        self.counter += 1
        chosen = f"n{self.counter}"
        self.program.lets[chosen] = literal
        return name(chosen)

    def extents(self, rank, most=17, elements=4000):
        while True:
            saved = self.program.copy()
            result = [self.extent(most) for _ in range(rank)]
            if math.prod(map(self.size, result)) <= elements:
                return result
            self.program = saved

    def fresh(self, prefix):
        self.counter += 1
        return f"{prefix}{self.counter}"

    # Tensors.
    def input(self, type, shape, kind="natural", const=None, most=None):
        if const is None:
            const = self.chance(self.const_share)
        tensor = Tensor(self.fresh("x"), type, tuple(map(lift, shape)), const)
        sizes = tuple(map(self.size, tensor.shape))
        edge = self.edge and kind in ("natural", "positive") and self.chance(0.5)
        data = draw(self.arrays, type, sizes, "edge" if edge else kind, most)
        self.values[tensor.name] = Value(type, data)
        self.program.tensors[tensor.name] = tensor
        return tensor

    def define(self, axes, expression, prefix="t"):
        """axes: [(name, extent)]; the tensor, or Refused."""
        tensor = Tensor(self.fresh(prefix), expression.type,
                        tuple(lift(e) for _, e in axes), axes=tuple(a for a, _ in axes),
                        expression=expression)
        if math.prod(self.size(e) for e in tensor.shape) > MOST_ELEMENTS:
            raise Refused("too large")
        evaluator = Evaluator(self.program, self.values)
        value = evaluator.compute(tensor)
        self.judge(value)
        self.values[tensor.name] = value
        self.program.tensors[tensor.name] = tensor
        return tensor

    def judge(self, value):
        lo, hi = value.lo, value.hi
        if is_float(value.type):
            finite = np.isfinite(lo) & np.isfinite(hi)
            size = np.max(np.abs(np.where(finite, lo, 0)), initial=0)
            if not self.edge and size > MOST_MAGNITUDE[value.type]:
                raise Refused("large")
            with np.errstate(invalid="ignore", over="ignore"):
                sharp = (lo == hi) | finite & (hi - lo <= 0.04 * max(size, 1e-30))
        else:
            sharp = lo == hi
        if np.mean(sharp) < (0.2 if self.edge else 0.7):
            raise Refused("open")

    def tensor(self, type, shape, kind="natural"):
        """One of this type and shape: there already, or a new input."""
        sizes = tuple(map(self.size, shape))
        there = [t for t in self.program.tensors.values()
                 if t.type == type and self.values[t.name].lo.shape == sizes]
        if there and kind == "natural" and self.chance(0.6):
            return self.pick(there)
        return self.input(type, shape, kind)

    def reader(self, type, shape, kind="natural"):
        """A function from indices to an expression of this type."""
        sizes = tuple(map(self.size, shape))
        other = [t for t in self.program.tensors.values() if t.type not in (type, "bool")
                 and self.values[t.name].lo.shape == sizes]
        if other and kind == "natural" and self.chance(0.3):
            tensor = self.pick(other)
            return lambda *at: cast(type, tensor[at])
        tensor = self.tensor(type, shape, kind)
        return lambda *at: tensor[at]

    def attempt(self, motif):
        """Whether a motif fitted; if not nothing of it is left."""
        saved, arrays = self.program.copy(), dict(self.values)
        try:
            motif(self)
            return True
        except Refused:
            self.program, self.values = saved, arrays
            return False

    def finish(self):
        """Marks the outputs, and leaves out what is not read."""
        tensors = self.program.tensors
        read = set()
        for t in self.program.computed():
            read |= reads(t.expression)
        for t in list(self.program.computed()):
            if t.name not in read or self.chance(0.12):
                tensors[t.name] = Tensor(**{**t.__dict__, "out": True})
        for t in self.program.inputs():
            if t.name not in read:
                del tensors[t.name], self.values[t.name]
        return self.program


def axes_of(shape, letters="ijklmnpqrs"):
    return [(letters[n], lift(e)) for n, e in enumerate(shape)]
