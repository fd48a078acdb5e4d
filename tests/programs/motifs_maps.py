"""Motifs around maps: chains, reductions, gathers, reshapes, stencils, casts, scans of functions."""
import math

from draft import axes_of
from expressions import Expressions
from motifs_products import at, epilogue, others, split_axes
from syntax import (INTEGERS, TYPES, axis, binary, border, call, cast, lift, number, pad,
                    reduce, where)
from values import is_float


def any_shape(d, most_rank=5):
    rank = d.random.choices(range(6), (1, 4, 5, 5, 3, 2))[0]
    rank = min(rank, most_rank)
    return d.extents(rank, 129 if rank <= 2 else 48 if rank == 3 else 11, 8000)


def elementwise(d):
    axes = axes_of(any_shape(d))
    for _ in range(d.random.choice((1, 1, 2, 3))):
        e = Expressions(d, axes)
        type = d.type() if d.chance(0.95) else "bool"
        d.define(axes, e.typed(type, d.random.choice((1, 2, 3, 4))))


def reduction(d):
    shape, axes, reduced = split_axes(d)
    type = d.type()
    op = d.pick(("sum", "sum", "max", "min", "prod"))
    kept = others(axes, reduced)
    e = Expressions(d, axes)
    e.inner = 1
    body = e.typed(type, d.random.choice((0, 1, 1, 2)))
    if op == "prod" and is_float(type):
        body = 1 + body * 0.1
    value = reduce(op, reduced, body)
    if d.chance(0.3) and is_float(value.type):
        value = call("sqrt", call("abs", value)) if d.chance(0.5) else value * 0.5 + 1
    epilogue(d, d.define(kept, value), kept)


STEPS = (
    lambda x: x + 0.1 * call("tanh", x), lambda x: (x * x + x) * 0.5, lambda x: call("tanh", x) * 0.9,
    lambda x: x * 0.5 + 0.25, lambda x: call("max", x, number(0)) - 0.1,
    lambda x: x * call("sigmoid", x), lambda x: call("abs", x) - 0.3,
    lambda x: x / (1 + x * x), lambda x: where(binary(">", x, number(0)), x, x * 0.1),
    lambda x: call("exp", -(x * x)), lambda x: call("sqrt", x * x + 0.1),
)
WHOLE_STEPS = (
    lambda x: x * 3 + 1, lambda x: x / 2, lambda x: call("max", x, number(1)), lambda x: x * x,
    lambda x: x % 7, lambda x: call("abs", x) - 3, lambda x: call("clamp", x, number(0), number(9)),
)


def chain(d):
    axes = axes_of(any_shape(d))
    type = d.type()
    names = at(*(n for n, _ in axes))
    node = d.reader(type, [e for _, e in axes])(*names)
    steps = STEPS if is_float(type) else WHOLE_STEPS
    same = d.pick(steps) if d.chance(0.4) else None
    for _ in range(d.random.choice((2, 3, 5, 8, 12, 20))):
        node = d.define(axes, (same or d.pick(steps))(node))[names]


def ladder(d):
    """Each read by the two that follow."""
    axes = axes_of(any_shape(d))
    type = d.type()
    names = at(*(n for n, _ in axes))
    read = d.reader(type, [e for _, e in axes])(*names)
    other = d.reader(type, [e for _, e in axes])(*names)
    join = d.pick((lambda a, b: (a + b) * 0.5, lambda a, b: call("max", a, b) * 0.9 + 0.1,
                   lambda a, b: a * 0.6 - b * 0.3, lambda a, b: call("tanh", a - b)))
    if not is_float(type):
        join = d.pick((lambda a, b: a + b, lambda a, b: a * 2 - b, lambda a, b: call("max", a, b)))
    for _ in range(d.random.choice((2, 4, 7, 12, 24))):
        read, other = d.define(axes, join(read, other))[names], read


def diamond(d):
    """One tensor, read by several, which meet again, some through a reduction."""
    shape, axes, reduced = split_axes(d, 4)
    names = at(*(n for n, _ in axes))
    type = d.pick(("f32", "f32", "f64", "i32", "i64"))
    top = d.reader(type, shape)(*names)
    steps = STEPS if is_float(type) else WHOLE_STEPS
    for _ in range(d.random.choice((1, 2, 3))):
        left = d.define(axes, d.pick(steps)(top))
        right = d.define(axes, d.pick(steps)(top))
        if d.chance(0.5):
            kept = others(axes, reduced)
            op = d.pick(("sum", "max"))
            row = d.define(kept, reduce(op, reduced, right[names]))
            other = row[at(*(n for n, _ in kept))]
            if op == "sum" and is_float(type):
                other = other / reduced[0][1]
        else:
            other = right[names]
        top = d.define(axes, binary(d.pick("+-*"), left[names], other))[names]
        if is_float(type):
            top = top * 0.5


def stencil(d):
    """Neighbours along one or two axes, several times in a row."""
    shape = d.extents(d.pick((1, 2, 2, 3)), 48, 4000)
    axes = axes_of(shape)
    type = d.type()
    tensor = d.tensor(type, shape)
    for _ in range(d.random.choice((1, 1, 2, 3, 6))):
        along = d.random.randrange(len(axes))
        names = [axis(n) for n, _ in axes]

        way = d.pick((None, None, "edge", "reflect", "wrap"))

        def shifted(by):
            index = list(names)
            index[along] = index[along] + by if by >= 0 else index[along] - -by
            read = tensor[tuple(index)]
            if d.chance(0.3):
                inside = (binary(">=", index[along], number(0)) if by < 0 else
                          binary("<", index[along], lift(axes[along][1])))
                return where(inside, read, tensor[tuple(names)])
            return pad(read, 0) if way is None else border(read, way)
        reach = d.pick((1, 1, 2))
        if is_float(type):
            value = (shifted(-reach) + tensor[tuple(names)] * 2 + shifted(reach)) * 0.25
        else:
            value = d.pick((shifted(-reach) + shifted(reach),
                            call("max", shifted(-reach), tensor[tuple(names)]) - shifted(reach)))
        tensor = d.define(axes, value)


def gather(d):
    v, m = d.extent(100), d.extent(31)
    width = d.extents(d.pick((0, 1, 1, 2)), 17, 300)
    type, index_type = d.type(), d.pick(("i32", "i32", "i64", "i16", "u8", "i8"))
    table = d.tensor(type, [v] + width)
    inner = axes_of(width, "wxyz")
    rest = at(*(n for n, _ in inner))
    way = d.pick(("rows", "rows", "bag", "twice", "scatter", "computed"))
    if way == "bag":
        bag = d.extent(7)
        rows = d.input(index_type, [m, bag], "index", most=d.size(v))
        value = reduce(d.pick(("sum", "max")), [("k", bag)], table[(rows[at("i", "k")], *rest)])
        axes = [("i", m)] + inner
    elif way == "twice":
        n = d.extent(17)
        first = d.input("i32", [n], "index", most=d.size(m))
        second = d.input(index_type, [m], "index", most=d.size(v))
        value = table[(second[first[axis("i")]], *rest)] if d.chance(0.5) else (
            table[(second[axis("j")], *rest)] - table[(second[first[axis("i")]], *rest)])
        axes = [("i", n)] + ([("j", m)] if value.kind == "binary" else []) + inner
    elif way == "scatter":                 # one-hot sums
        rows = d.input(index_type, [v], "index", most=d.size(m))
        key = rows[axis("k")]
        key = key if index_type == "i32" else cast("i32", key)
        value = reduce("sum", [("k", v)], where(binary("==", key, axis("i")),
                                                table[(axis("k"), *rest)], number(0)))
        axes = [("i", m)] + inner
    else:
        rows = d.input(index_type, [m], "index", most=d.size(v))
        index = rows[axis("i")]
        if way == "computed":
            index = (index * d.pick((1, 3)) + d.random.randrange(5)) % v
        value = table[(index, *rest)]
        axes = [("i", m)] + inner
    e = Expressions(d, axes)
    if d.chance(0.4):
        value = binary(d.pick("+-*"), value, e.typed(value.type, 1))
    epilogue(d, d.define(axes, value), axes)


def triangle(d):
    """Running sums, bands and triangular products."""
    n, type = d.extent(48), d.type()
    rows = d.extents(d.pick((0, 1)), 11)
    axes = axes_of(rows, "bc") + [("i", n)]
    x = d.reader(type, rows + [n])
    names = at(*(a for a, _ in axes[:-1]))
    value = x(*names, axis("k"))
    if d.chance(0.4):
        value = value * d.reader(type, [n, n])(*at("i", "k"))
    condition = d.pick((binary("<=", axis("k"), axis("i")), binary(">", axis("k"), axis("i")),
                        binary("<=", call("abs", axis("k") - axis("i")), number(2)),
                        binary("<", axis("k") / 2, axis("i"))))
    op = d.pick(("sum", "sum", "max", "min"))

    neutral = {"sum": 0, "max": -math.inf, "min": math.inf}[op] if is_float(type) else 0
    epilogue(d, d.define(axes, reduce(op, [("k", n)], where(condition, value, number(neutral)))), axes)


def reshape(d):
    """Moves elements: by division and remainder, transposed, rolled, joined, repeated."""
    type = d.pick(TYPES)
    way = d.pick(("join", "split", "transpose", "roll", "concatenate", "repeat", "slice", "shuffle"))
    m, n = d.extent(19), d.extent(19)
    rest = d.extents(d.pick((0, 0, 1)), 8)
    inner = axes_of(rest, "wx")
    r = at(*(a for a, _ in inner))
    if way == "join":
        x = d.tensor(type, [m, n] + rest)
        axes, value = [("i", d.let(m * n))], x[(axis("i") / n, axis("i") % n, *r)]
    elif way == "split":
        x = d.tensor(type, [d.let(m * n)] + rest)
        axes, value = [("i", m), ("j", n)], x[(axis("i") * n + axis("j"), *r)]
    elif way == "transpose":
        shape = d.extents(d.random.randint(2, 5), 17, 4000)
        axes, inner = axes_of(shape), []
        order = list(axes)
        d.random.shuffle(order)
        x = d.tensor(type, [e for _, e in order])
        value = x[at(*(a for a, _ in order))]
    elif way == "roll":
        x = d.tensor(type, [m] + rest)
        axes, value = [("i", m)], x[((axis("i") + d.random.randrange(9)) % m, *r)]
    elif way == "concatenate":
        x, y = d.tensor(type, [m] + rest), d.tensor(type, [n] + rest)
        axes = [("i", d.let(m + n))]
        value = where(binary("<", axis("i"), m), x[(axis("i"), *r)], y[(axis("i") - m, *r)])
    elif way == "repeat":
        x = d.tensor(type, [m] + rest)
        times = d.pick((2, 3))
        axes = [("i", d.let(m * times))]
        value = x[(axis("i") / times if d.chance(0.5) else axis("i") % m, *r)]
    elif way == "slice":
        step, start = d.pick((2, 3)), d.random.randrange(3)
        x = d.tensor(type, [d.let(m * step + start)] + rest)
        axes, value = [("i", m)], x[(axis("i") * step + start, *r)]
    else:                                  # depth to space
        block = d.pick((2, 3))
        x = d.tensor(type, [m, n, number(block * block)] + rest)
        axes = [("i", d.let(m * block)), ("j", d.let(n * block))]
        value = x[(axis("i") / block, axis("j") / block,
                   axis("i") % block * block + axis("j") % block, *r)]
    axes = axes + inner
    tensor = d.define(axes, value)
    if type != "bool":
        epilogue(d, tensor, axes)


def casts(d):
    axes = axes_of(any_shape(d, 3))
    names = at(*(n for n, _ in axes))
    for _ in range(d.random.choice((1, 2, 4))):
        source = d.pick(TYPES)
        kind = "full" if source in INTEGERS else "sweep" if d.chance(0.6) else "natural"
        most = d.pick((3, 100, 300, 40000, 3e9, 1e19)) if source != "f16" else d.pick((3, 300, 6e4))
        if source == "bool":
            kind = "natural"
        node = d.input(source, [e for _, e in axes], kind, most=most)[names]
        if is_float(source) and d.chance(0.15):
            node = call(d.pick(("sqrt", "log")), node)
        for _ in range(d.random.choice((1, 1, 2, 3))):
            target = d.pick([t for t in TYPES if t not in (node.type, "bool")])
            node = cast(target, node)
        d.define(axes, node)


def integers(d):
    """Wrapping, floor division, division by zero, over the whole of each type."""
    axes = axes_of(any_shape(d, 3))
    names = at(*(n for n, _ in axes))
    shape = [e for _, e in axes]
    for _ in range(d.random.choice((1, 2, 3))):
        type = d.pick(INTEGERS)
        a = d.input(type, shape, "full")[names]
        b = d.input(type, shape, "full" if d.chance(0.5) else "natural")[names]
        value = d.pick((a + b, a - b, a * b, a / b, a % b, -a, call("abs", a), a / 3, a % 5,
                        a * b + a, a / b * b + a % b, call("max", a, b) - call("min", a, b),
                        where(binary("<", a, b), a, b), where(binary("==", b, number(0)), a, a / b)))
        d.define(axes, value)


RANGES = {"exp": (-80, 80), "log": (1e-6, 1e4), "sqrt": (0, 1e4), "rsqrt": (1e-4, 1e4),
          "tanh": (-12, 12), "erf": (-5, 5), "sigmoid": (-90, 90), "floor": (-300, 300),
          "ceil": (-300, 300), "round": (-300, 300), "abs": (-9, 9)}


def scan(d):
    """A function over its range."""
    type = d.float_type()
    f = d.pick(list(RANGES) + ["pow"])
    n = d.extent(129, 7)
    axes = [("i", n)] if d.chance(0.6) else [("i", n), ("j", d.extent(31))]
    names, shape = at(*(a for a, _ in axes)), [e for _, e in axes]
    if f == "pow":
        x = d.input(type, shape, "positive")[names]
        power = d.pick((number(2), number(0.5), number(-1.5), d.input(type, shape)[names]))
        value = call("pow", x, power)
    else:
        least, most = RANGES[f]
        if type == "f16":
            least, most = max(least, -9), min(most, 9 if f == "exp" else 300)
        x = d.input(type, shape, "sweep", most=1)[names]
        value = call(f, x * ((most - least) / 2) + (most + least) / 2 if least >= 0
                     else x * float(most))
        if f in ("log", "sqrt", "rsqrt"):
            value = call(f, call("abs", x * float(most)) + max(float(least), 1e-6))
    d.define(axes, value)


def winners(d):
    """Positions of the greatest, by comparing with it."""
    m, n = d.extent(13), d.extent(31)
    type = d.type()
    x = d.tensor(type, [m, n])
    top = d.define([("i", m)], reduce("max", [("j", n)], x[at("i", "j")]))
    hit = binary("==", x[at("i", "j")], top[at("i")])
    if d.chance(0.5):
        d.define([("i", m)], reduce("min", [("j", n)], where(hit, axis("j"), lift(n))))
    else:
        axes = [("i", m), ("j", n)]
        d.define(axes, where(hit, x[at("i", "j")], number(0)))


MOTIFS = {elementwise: 10, reduction: 8, chain: 4, ladder: 3, diamond: 4, stencil: 4, gather: 5,
          triangle: 3, reshape: 6, casts: 4, integers: 4, scan: 5, winners: 2}
