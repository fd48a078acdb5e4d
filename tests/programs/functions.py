"""The language's functions and reductions over Values."""
import math

import numpy as np

from values import (FLOOR, FUNCTION_UNITS, LARGEST, UNIT, Value, absolute, arithmetic, bounded,
                    is_float, largest, limits, rounded, smallest, wrap)

POW_UNITS = 2                              # times a function's: the logarithm's error is multiplied

# The sum of K terms in any order: never worse than K roundings of the sum of magnitudes; beyond a
# few dozens a walk of so many standard deviations.
DEVIATIONS = 8

erf = np.vectorize(math.erf, otypes=[float])


def sigmoid(x):
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, small) / (1 + small)


RISING = {"exp": np.exp, "tanh": np.tanh, "erf": erf, "sigmoid": sigmoid}
STEPS = {"floor": np.floor, "ceil": np.ceil, "round": np.rint}


def call(function, type, args):
    a = args[0]
    if function == "abs":
        return absolute(a)
    if function == "max":
        return largest(a, args[1])
    if function == "min":
        return smallest(a, args[1])
    if function == "clamp":
        return smallest(largest(a, args[1]), args[2])
    if function in STEPS:
        return a.map(STEPS[function])
    with np.errstate(all="ignore"):
        if function in RISING:
            return rising(function, type, a)
        return {"log": log, "sqrt": sqrt, "rsqrt": rsqrt, "pow": power}[function](type, *args)


def rising(function, type, a):
    lo = RISING[function](a.lo)
    hi = lo if a.lo is a.hi else RISING[function](a.hi)
    r = rounded(type, lo, hi, FUNCTION_UNITS[type])
    if function in ("exp", "sigmoid"):
        r.lo = np.maximum(r.lo, 0)
    return r


def log(type, a):
    unsure = (a.lo < 0) & (a.hi >= 0)
    lo = np.log(np.where(a.lo <= FLOOR[type], 0, a.lo))
    hi = np.log(np.maximum(a.hi, 0))
    flushed = (a.hi <= FLOOR[type]) & (a.hi >= 0)
    r = rounded(type, lo, hi, FUNCTION_UNITS[type])
    r.hi = np.where(flushed & (a.hi == 0), -np.inf, r.hi)
    none = unsure | (a.hi < 0)
    return Value(type, np.where(none, np.nan, r.lo), np.where(none, np.nan, r.hi), certain(a.hi < 0))


def certain(mask):
    return mask if np.any(mask) else None


def sqrt(type, a):
    none = a.lo < 0
    r = rounded(type, np.sqrt(np.maximum(a.lo, 0)), np.sqrt(np.maximum(a.hi, 0)),
                2 if type in ("f16", "bf16") else 4)
    # The root of what may be flushed.
    low = np.where(a.lo <= FLOOR[type], 0, np.maximum(r.lo, 0))
    return Value(type, np.where(none, np.nan, low), np.where(none, np.nan, r.hi), certain(a.hi < 0))


def rsqrt(type, a):
    none = a.lo < 0
    lo = 1 / np.sqrt(np.maximum(a.hi, 0))
    hi = np.where(a.lo <= FLOOR[type], np.inf, 1 / np.sqrt(np.maximum(a.lo, 0)))
    r = rounded(type, lo, hi, FUNCTION_UNITS[type])
    return Value(type, np.where(none, np.nan, np.maximum(r.lo, 0)), np.where(none, np.nan, r.hi),
                 certain(a.hi < 0))


def power(type, a, b):
    ends = [np.power(x, y) for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
    lo, hi = np.minimum.reduce(ends), np.maximum.reduce(ends)
    whole = (b.lo == b.hi) & (np.rint(b.lo) == b.lo)
    crosses = (a.lo <= 0) & (a.hi >= 0)
    even = whole & (np.mod(b.lo, 2) == 0)
    lo = np.where(crosses & even & (b.lo > 0), 0.0, lo)
    unknown = np.where(whole, crosses & (b.lo < 0), a.lo < 0)
    unknown = unknown | (crosses & ~(b.lo > 0))
    r = rounded(type, lo, hi, FUNCTION_UNITS[type] * POW_UNITS)
    return Value(type, np.where(unknown, np.nan, r.lo), np.where(unknown, np.nan, r.hi))


# Reductions, over the leading axes.
def reduce(op, type, terms, count):
    """terms: their arrays hold all `count` leading axes whole."""
    over = tuple(range(count))
    if op in ("max", "min"):
        f = np.max if op == "max" else np.min
        return Value(type, f(terms.lo, axis=over),
                     f(terms.lo if terms.exact() else terms.hi, axis=over))
    if op == "prod":
        return product(type, terms, count)
    return total(type, terms, over) if is_float(type) else whole_total(type, terms, over)


def total(type, terms, over):
    number = math.prod(terms.lo.shape[n] for n in over)
    size = np.maximum(np.abs(terms.lo), np.abs(terms.hi))
    with np.errstate(invalid="ignore", over="ignore"):
        magnitude = np.sum(size, axis=over)
        lo = np.sum(terms.lo, axis=over)
        hi = lo if terms.lo is terms.hi else np.sum(terms.hi, axis=over)
        same = np.all(terms.lo == terms.hi, axis=over)
        whole = np.all(np.rint(terms.lo) == terms.lo, axis=over) & (magnitude * UNIT[type] <= 0.5)
        single = np.count_nonzero(size, axis=over) <= 1
        exact = same & (whole | single)
        share = UNIT[type] * min(number, DEVIATIONS * math.sqrt(number))
        error = np.where(exact | np.isinf(magnitude), 0, magnitude * share + number * FLOOR[type])
        r = rounded(type, lo - error, hi + error, 0, exact, floor=False)
        # Terms that are infinite for certain stay so; what may overflow on the way is open, beside
        # them too: to the other infinity.
        finite = np.sum(np.where(np.isfinite(size), size, 0), axis=over)
        overflows = finite > LARGEST[type] / 2
        certain_terms = np.all(np.isfinite(size) | (terms.lo == terms.hi), axis=over)
        overflows |= np.isinf(magnitude) & ~certain_terms
    return Value(type, np.where(overflows, np.nan, r.lo), np.where(overflows, np.nan, r.hi))


def whole_total(type, terms, over):
    with np.errstate(over="ignore"):
        r = wrap(type, np.sum(terms.lo, axis=over))
    if terms.exact():
        return Value(type, r)
    lo = np.sum(terms.lo.astype(np.float64), axis=over)
    hi = np.sum(terms.hi.astype(np.float64), axis=over)
    bottom, top = limits(type)
    fits = (lo >= bottom) & (hi <= top) & (np.abs(lo) < 2.0 ** 53) & (np.abs(hi) < 2.0 ** 53)
    same = np.all(terms.lo == terms.hi, axis=over)
    inner_lo = np.where(fits, lo, 0).astype(np.int64)
    inner_hi = np.where(fits, hi, 0).astype(np.int64)
    return Value(type, np.where(same, r, np.where(fits, inner_lo, bottom)),
                 np.where(same, r, np.where(fits, inner_hi, top)))


def product(type, terms, count):
    rest = terms.lo.shape[count:]
    flat = terms.map(lambda x: x.reshape((-1,) + rest))
    one = np.ones(rest) if is_float(type) else np.ones(rest, np.int64)
    result = Value(type, one)
    for n in range(flat.lo.shape[0]):
        lo = flat.lo[n]
        term = Value(type, lo, lo if flat.lo is flat.hi else flat.hi[n])
        result = arithmetic("*", type, result, term)
    if not is_float(type):
        return result
    # In another order parts overflow or are flushed.
    with np.errstate(all="ignore"):
        size = np.maximum(np.abs(flat.lo), np.abs(flat.hi))
        above = np.prod(np.maximum(size, 1), axis=0)
        below = np.prod(np.where(size > 0, np.minimum(size, 1), 1), axis=0)
        spread = np.where(below < 2 * FLOOR[type], above * FLOOR[type] * 2, 0)
        lo, hi = bounded(type, result.lo - spread, result.hi + spread)
    unknown = (above > LARGEST[type] / 2) & ~(np.isinf(result.lo) & (result.lo == result.hi))
    return Value(type, np.where(unknown, np.nan, lo), np.where(unknown, np.nan, hi))
