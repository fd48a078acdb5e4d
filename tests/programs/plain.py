"""Computes a program as a plain kernel would: in the types themselves, sums one after another.

What it answers must be admissible to values.py, and what a mistaken program makes of it must not be
(self_test.py)."""
import math

import numpy as np

from evaluate import Evaluator
from values import STORED, Value, is_float, limits, nearest

FORMULAS = {"exp": np.exp, "log": np.log, "sqrt": np.sqrt, "tanh": np.tanh, "abs": np.abs,
            "floor": np.floor, "ceil": np.ceil, "round": np.rint, "max": np.maximum,
            "min": np.minimum, "pow": np.power,
            "rsqrt": lambda x: 1 / np.sqrt(x), "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
            "clamp": lambda x, a, b: np.minimum(np.maximum(x, a), b),
            "erf": lambda x: np.vectorize(math.erf, otypes=[float])(x).astype(x.dtype)}


def native(value):
    return value.lo.astype(np.float32 if value.type in ("f16", "bf16") else STORED[value.type])


def back(type, array):
    array = np.asarray(array)
    return Value(type, nearest(type, array.astype(np.float64)) if is_float(type)
                 else array.astype(np.int64))


class Plain:
    @staticmethod
    def literal(type, value):
        return back(type, np.asarray(float(value) if is_float(type) else int(value)))

    @staticmethod
    def arithmetic(op, type, a, b):
        x, y = native(a), native(b)
        with np.errstate(all="ignore"):
            if op in "+-*":
                return back(type, {"+": np.add, "-": np.subtract, "*": np.multiply}[op](x, y))
            if is_float(type):
                return back(type, x / y)
            r = x // y if op == "/" else x % y
            return back(type, np.where(y == 0, 0, r))

    @staticmethod
    def negated(a):
        return back(a.type, -native(a))

    @staticmethod
    def compare(op, a, b):
        f = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
             "==": np.equal, "!=": np.not_equal}[op]
        return back("bool", f(a.lo, b.lo))

    @staticmethod
    def either(type, condition, a, b):
        return back(type, np.where(condition.lo != 0, a.lo, b.lo))

    @staticmethod
    def cast(type, a):
        if is_float(type):
            return back(type, a.lo)
        if not is_float(a.type):
            return back(type, a.lo.astype(STORED[type]))
        bottom, top = limits(type)
        whole = np.trunc(np.where(np.isnan(a.lo), 0, a.lo))
        inside = (whole >= bottom) & (whole < float(top))
        return back(type, np.where(inside, np.where(inside, whole, 0).astype(np.int64),
                                   np.where(whole < 0, bottom, top)))

    @staticmethod
    def call(function, type, args):
        with np.errstate(all="ignore"):
            return back(type, FORMULAS[function](*map(native, args)))

    @staticmethod
    def reduce(op, type, terms, count):
        array = native(terms)
        array = array.reshape((-1,) + array.shape[count:])
        f = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}[op]
        result = array[0]
        with np.errstate(all="ignore"):
            for term in array[1:]:
                result = f(result, term)
        return back(type, result)


def compute(program, inputs):
    return Evaluator(program, inputs, Plain).run()
