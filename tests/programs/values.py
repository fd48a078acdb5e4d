"""Values with an admissible error: what a right kernel may answer.

A Value holds two arrays, lo and hi: a right kernel's element lies between. Floats are f64 (of any
type of the language) with every operation's rounding in its type added outwards; NaN in lo or hi
says that the language leaves the element open. Integers are i64, wrapped to their type; lo equals
hi but where a float whose rounding is open became an integer. bool is 0 or 1.
"""
import numpy as np

# Unit roundoff, and the largest and smallest normal number.
UNIT = {"f64": 2.0 ** -52, "f32": 2.0 ** -24, "f16": 2.0 ** -11, "bf16": 2.0 ** -8}
LARGEST = {"f64": 1.7976931348623157e308, "f32": 3.4028234663852886e38, "f16": 65504.0,
           "bf16": 3.3895313892515355e38}
# Subnormal results may be flushed, or rounded to their coarser grid.
FLOOR = {"f64": 2.0 ** -1022, "f32": 2.0 ** -126, "f16": 2.0 ** -24, "bf16": 2.0 ** -126}
# "Within a few ulp", of the type in which the function is computed.
FUNCTION_UNITS = {"f64": 8, "f32": 10, "f16": 2, "bf16": 2}
BITS = {"i64": 64, "i32": 32, "i16": 16, "i8": 8, "u8": 8, "bool": 1}
STORED = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "i64": np.int64, "i32": np.int32,
          "i16": np.int16, "i8": np.int8, "u8": np.uint8, "bool": np.bool_}


class Value:
    """nan: where the element is certainly NaN (or None); only a cast and an output look at it."""
    __slots__ = ("type", "lo", "hi", "nan")

    def __init__(self, type, lo, hi=None, nan=None):
        self.type, self.lo, self.hi, self.nan = type, lo, lo if hi is None else hi, nan

    def map(self, f):
        """The same rearrangement of all elements."""
        lo = f(self.lo)
        hi = lo if self.hi is self.lo else f(self.hi)
        return Value(self.type, lo, hi, None if self.nan is None else f(self.nan))

    def exact(self):
        return self.lo is self.hi or np.array_equal(self.lo, self.hi)


def is_float(type):
    return type in UNIT


def nearest(type, x):
    """x rounded to the type, as f64."""
    x = np.asarray(x, np.float64)
    with np.errstate(over="ignore"):
        if type == "f64":
            return x
        if type in ("f32", "f16"):
            return x.astype(STORED[type]).astype(np.float64)
        fraction, exponent = np.frexp(x)
        exponent = np.maximum(exponent, -125)
        grid = np.ldexp(1.0, exponent - 8)
        rounded = np.where(np.isfinite(x), np.rint(x / grid) * grid, x)
        return np.where(np.abs(rounded) > LARGEST["bf16"], np.copysign(np.inf, x), rounded)


def literal(type, value):
    if not is_float(type):
        return Value(type, np.asarray(int(value), np.int64))
    value = float(value)
    if type in ("f16", "bf16"):            # or, in the body of a sum, of f32
        both = [nearest(type, value), nearest("f32", value)]
        return Value(type, np.minimum(*both), np.maximum(*both))
    return Value(type, nearest(type, value))


def bounded(type, lo, hi):
    """What overflows may have become infinite, or be the largest number still."""
    top = LARGEST[type]
    if np.all(np.abs(lo) <= top) and np.all(np.abs(hi) <= top):
        return lo, hi
    infinite = lo == hi
    lo2 = np.where(lo < -top, -np.inf, np.minimum(lo, top))
    hi2 = np.where(hi > top, np.inf, np.maximum(hi, -top))
    keep = infinite & np.isinf(lo)         # an honest infinity
    return np.where(keep, lo, lo2), np.where(keep, hi, hi2)


def rounded(type, lo, hi, units=1, exact=None, floor=True):
    """Interval [lo, hi] with the type's rounding added; exact: where there is none to add."""
    unit = (units * UNIT[type] if units else 0) + 2.0 ** -51
    least = FLOOR[type] if floor else 0.0
    with np.errstate(invalid="ignore", over="ignore"):
        wide_lo = lo - (np.abs(lo) * unit + least)
        wide_hi = hi + (np.abs(hi) * unit + least)
        wide_lo = np.where(np.isinf(lo), lo, wide_lo)
        wide_hi = np.where(np.isinf(hi), hi, wide_hi)
        if exact is not None:
            wide_lo, wide_hi = np.where(exact, lo, wide_lo), np.where(exact, hi, wide_hi)
        lo, hi = bounded(type, wide_lo, wide_hi)
    anything = (lo == -np.inf) & (hi == np.inf)  # also NaN: an infinity times about zero
    if np.any(anything):
        lo, hi = np.where(anything, np.nan, lo), np.where(anything, np.nan, hi)
    return Value(type, lo, hi)


def representable(type, a, b, r):
    """Where a sum or product of exact operands needs no rounding."""
    same = (a.lo == a.hi) & (b.lo == b.hi)
    if type == "f64":
        whole = (np.rint(a.lo) == a.lo) & (np.rint(b.lo) == b.lo) & (np.abs(r) < 2.0 ** 52)
        return same & whole
    return same & (nearest(type, r) == r)


def wrap(type, x):
    if type == "i64":
        return x
    if type == "bool":
        return (x != 0).astype(np.int64)
    return x.astype(STORED[type]).astype(np.int64)


def limits(type):
    if type in ("u8", "bool"):
        return 0, 2 ** BITS[type] - 1
    return -2 ** (BITS[type] - 1), 2 ** (BITS[type] - 1) - 1


def corners(f, a, b):
    with np.errstate(all="ignore"):
        if a.lo is a.hi and b.lo is b.hi:
            r = f(a.lo, b.lo)
            return r, r
        if a.lo is a.hi or b.lo is b.hi:
            four = [f(a.lo, b.lo), f(a.hi, b.hi)]
        else:
            four = [f(a.lo, b.lo), f(a.lo, b.hi), f(a.hi, b.lo), f(a.hi, b.hi)]
    lo = hi = four[0]
    for x in four[1:]:
        lo, hi = np.minimum(lo, x), np.maximum(hi, x)
    return lo, hi


def open_integers(type, f, a, b):
    """Integers whose operands are open: the corners where they fit the type, else all of it."""
    lo, hi = corners(lambda x, y: f(x.astype(np.float64), y.astype(np.float64)), a, b)
    bottom, top = limits(type)
    fits = (lo >= bottom) & (hi <= top) & (np.abs(lo) < 2.0 ** 53) & (np.abs(hi) < 2.0 ** 53)
    lo = np.where(fits, lo, 0).astype(np.int64)
    hi = np.where(fits, hi, 0).astype(np.int64)
    return np.where(fits, lo, bottom), np.where(fits, hi, top)


def integer_op(type, f, a, b, exactly=None):
    with np.errstate(all="ignore"):
        r = wrap(type, (exactly or f)(a.lo, b.lo))
        if a.exact() and b.exact():
            return Value(type, r)
        same = (a.lo == a.hi) & (b.lo == b.hi)
        lo, hi = open_integers(type, f, a, b)
        return Value(type, np.where(same, r, lo), np.where(same, r, hi))


def floor_divide(a, b):
    zero = b == 0
    safe = np.where(zero, 1, b)
    negated = safe == -1                   # the least number wraps
    return np.where(zero, 0, np.where(negated, -a, a // np.where(negated, 1, safe)))


def floor_modulo(a, b):
    zero = b == 0
    return np.where(zero | (b == -1), 0, a % np.where(zero | (b == -1), 1, b))



def arithmetic(op, type, a, b):
    if is_float(type):
        return float_arithmetic(op, type, a, b)
    if op in ("/", "%"):
        exactly = floor_divide if op == "/" else floor_modulo
        r = wrap(type, exactly(a.lo, b.lo))
        if a.exact() and b.exact():
            return Value(type, r)
        same = (a.lo == a.hi) & (b.lo == b.hi)
        bottom, top = limits(type)
        # Open dividends over a fixed positive divisor keep their order.
        fixed = (b.lo == b.hi) & (b.lo > 0)
        if op == "/":
            lo, hi = wrap(type, exactly(a.lo, b.lo)), wrap(type, exactly(a.hi, b.lo))
        else:
            lo, hi = np.zeros_like(a.lo), b.hi - 1
        lo, hi = np.where(fixed, lo, bottom), np.where(fixed, hi, top)
        return Value(type, np.where(same, r, lo), np.where(same, r, hi))
    return integer_op(type, {"+": np.add, "-": np.subtract, "*": np.multiply}[op], a, b)


def float_arithmetic(op, type, a, b):
    if op == "+":
        with np.errstate(invalid="ignore"):
            lo, hi = a.lo + b.lo, a.hi + b.hi
    elif op == "-":
        with np.errstate(invalid="ignore"):
            lo, hi = a.lo - b.hi, a.hi - b.lo
    elif op == "*":
        lo, hi = corners(np.multiply, a, b)
    else:
        return quotient(type, a, b)
    return rounded(type, lo, hi, 1, representable(type, a, b, lo))


def quotient(type, a, b):
    """Also as the product with a reciprocal, whose own rounding may leave the normal numbers."""
    tiny = 4 * FLOOR[type]
    touches = (b.lo <= tiny) & (b.hi >= -tiny)
    safe = Value(type, np.where(touches, 1.0, b.lo), np.where(touches, 1.0, b.hi))
    lo, hi = corners(np.divide, a, safe)
    size = np.maximum(np.abs(a.lo), np.abs(a.hi))
    with np.errstate(invalid="ignore", over="ignore"):
        flushed = size * FLOOR[type]       # the reciprocal of a huge number is tiny
        flushed = np.where(np.maximum(np.abs(b.lo), np.abs(b.hi)) > 0.2 / FLOOR[type], flushed, 0)
        r = rounded(type, lo - flushed, hi + flushed, 3)
    # An infinite dividend, or a divisor of zero, whose sign rounding may decide.
    return Value(type, np.where(touches, np.nan, r.lo), np.where(touches, np.nan, r.hi))


def compare(op, a, b):
    """bool: open where the intervals overlap."""
    if op in (">", ">="):
        a, b, op = b, a, {">": "<", ">=": "<="}[op]
    with np.errstate(invalid="ignore"):
        if op == "<":
            yes, no = a.hi < b.lo, a.lo >= b.hi
        elif op == "<=":
            yes, no = a.hi <= b.lo, a.lo > b.hi
        else:
            yes = (a.lo == a.hi) & (b.lo == b.hi) & (a.lo == b.lo)
            no = (a.hi < b.lo) | (b.hi < a.lo)
            if op == "!=":
                yes, no = no, yes
    if np.all(yes | no):
        return Value("bool", yes.astype(np.int64))
    return Value("bool", yes.astype(np.int64), (~no).astype(np.int64))


def either(type, condition, a, b):
    """where(): one side, or either where the condition is open."""
    lo, hi = condition.lo != 0, condition.hi != 0
    nan = None
    if a.nan is not None or b.nan is not None:
        none = np.zeros(np.shape(a.lo), bool)
        nan = np.where(lo, none if a.nan is None else a.nan, none if b.nan is None else b.nan)
        nan = nan & (lo == hi)
    if condition.exact():
        result = Value(type, np.where(lo, a.lo, b.lo), nan=nan)
        if not (a.exact() and b.exact()):
            result.hi = np.where(lo, a.hi, b.hi)
        return result
    return Value(type, np.where(lo, a.lo, np.where(hi, np.minimum(a.lo, b.lo), b.lo)),
                 np.where(lo, a.hi, np.where(hi, np.maximum(a.hi, b.hi), b.hi)), nan)


def largest(a, b):
    """max of two, exact; a NaN leaves it open."""
    return Value(a.type, np.maximum(a.lo, b.lo), np.maximum(a.hi, b.hi))


def smallest(a, b):
    return Value(a.type, np.minimum(a.lo, b.lo), np.minimum(a.hi, b.hi))


def negated(a):
    if is_float(a.type):
        return Value(a.type, -a.hi, -a.lo)
    return integer_op(a.type, np.subtract, Value(a.type, np.zeros_like(a.lo)), a)


def absolute(a):
    if is_float(a.type):
        crosses = (a.lo < 0) & (a.hi > 0)
        low = np.where(crosses, 0.0, np.minimum(np.abs(a.lo), np.abs(a.hi)))
        return Value(a.type, low, np.maximum(np.abs(a.lo), np.abs(a.hi)))
    r = wrap(a.type, np.abs(a.lo))
    if a.exact():
        return Value(a.type, r)
    size = np.maximum(np.abs(a.lo), np.abs(a.hi))
    bottom, top = limits(a.type)
    fits = (size <= top) & (size >= 0)
    same = a.lo == a.hi
    return Value(a.type, np.where(same, r, np.where(fits, 0, bottom)),
                 np.where(same, r, np.where(fits, size, top)))


def cast(type, a):
    if is_float(a.type):
        return float_to(type, a)
    if type == "bool":
        return compare("!=", a, Value(a.type, np.zeros_like(a.lo)))
    if is_float(type):
        lo, hi = a.lo.astype(np.float64), a.hi.astype(np.float64)
        same = (a.lo == a.hi) & (nearest(type, lo) == lo) & (np.abs(a.lo) < 2 ** 53)
        return rounded(type, lo, hi, 1, same)
    lo = wrap(type, a.lo)
    if a.exact():
        return Value(type, lo)
    bottom, top = limits(type)
    fits = (a.lo >= bottom) & (a.hi <= top)
    same = a.lo == a.hi
    return Value(type, np.where(same, lo, np.where(fits, a.lo, bottom)),
                 np.where(same, lo, np.where(fits, a.hi, top)))


def float_to(type, a):
    if type == a.type:
        return a
    if type == "bool":
        return compare("!=", a, literal(a.type, 0))
    if is_float(type):
        exact = (a.lo == a.hi) & (nearest(type, a.lo) == a.lo)
        return rounded(type, a.lo, a.hi, 1, exact)
    bottom, top = limits(type)

    def saturated(x, unknown):
        edge = float(top) if type != "i64" else 2.0 ** 63 - 1024
        with np.errstate(invalid="ignore"):
            inner = np.clip(np.trunc(x), float(bottom), edge)
            whole = np.where(np.isnan(inner), 0, inner).astype(np.int64)
            whole = np.where(x >= float(top), top, whole)
        return np.where(np.isnan(x), unknown, whole)
    lo, hi = saturated(a.lo, bottom), saturated(a.hi, top)
    if a.nan is not None:
        lo, hi = np.where(a.nan, 0, lo), np.where(a.nan, 0, hi)
    return Value(type, lo, hi)


def accepts(value, got):
    """Where the element that a kernel answered is admissible; got as stored, bf16 as f64."""
    with np.errstate(invalid="ignore"):
        if not is_float(value.type):
            got = got.astype(np.int64)
            return (got >= value.lo) & (got <= value.hi)
        got = got.astype(np.float64)
        ok = (got >= value.lo) & (got <= value.hi) | np.isnan(value.lo) | np.isnan(value.hi)
        if value.type == "bf16":           # may count as zero wherever it is computed with
            ok |= (got == 0) & (value.lo < FLOOR["bf16"]) & (value.hi > -FLOOR["bf16"])
        if value.nan is not None:
            ok = np.where(value.nan, np.isnan(got), ok)
        return ok


def middle(value):
    """A representative element each, in the type."""
    with np.errstate(invalid="ignore", over="ignore"):
        if not is_float(value.type):
            return value.lo
        inner = np.where(np.isfinite(value.lo), np.where(np.isfinite(value.hi),
                         value.lo / 2 + value.hi / 2, value.lo), value.hi)
        return nearest(value.type, np.where(value.lo == value.hi, value.lo, inner))
