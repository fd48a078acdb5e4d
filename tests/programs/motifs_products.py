"""Motifs around sums of products: contractions, convolutions, pools, norms, softmax, attention."""
import math

from draft import axes_of
from evaluate import Refused
from expressions import Expressions
from syntax import (ACCUMULATOR, axis, binary, call, cast, lift, number, pad, reduce, where)
from values import is_float


def at(*names):
    return tuple(axis(n) for n in names)


def accumulated(type):
    return ACCUMULATOR.get(type, type)


def epilogue(d, tensor, axes):
    """Maps over a result: biases, activations, scales, casts, random expressions."""
    names = [n for n, _ in axes]
    for _ in range(d.random.choice((0, 1, 1, 2))):
        x, type = tensor[at(*names)], tensor.type
        way = d.random.randrange(6)
        if way == 0 and axes:
            bias = d.reader(type, [axes[-1][1]])
            x = x + bias(axis(names[-1]))
        elif way == 1:
            x = call("max", x, number(0))
        elif way == 2 and is_float(type):
            x = d.pick((lambda v: v * call("sigmoid", v), lambda v: call("tanh", v),
                        lambda v: v * 0.5 * (1 + call("erf", v * 0.7071067811865476)),
                        lambda v: v / (1 + call("exp", -v)),
                        lambda v: call("clamp", v, number(-1), number(1))))(x)
        elif way == 3 and is_float(type):
            x = x * d.pick((0.5, 0.125, 2)) + d.pick((0, 1, -0.5))
        elif way == 4:
            target = d.type()
            if target != type:
                x = cast(target, call("round", x * 3) if is_float(type) and not is_float(target)
                         else x)
        else:
            e = Expressions(d, axes)
            x = binary(d.pick("+-*"), x, e.typed(type, 1))
        if x.kind == "read":
            continue
        tensor = d.define(axes, x)
    return tensor


def contraction(d):
    """Any einsum of two or three operands, over a semiring."""
    large = d.chance(0.25)
    counts = d.pick(((0, 1, 1, 1), (0, 1, 1, 1), (1, 1, 1, 1), (0, 1, 1, 2), (2, 1, 1, 1),
                     (0, 0, 1, 1), (0, 2, 1, 1), (1, 1, 0, 2), (0, 1, 2, 1)))
    letters = iter("bijklmnpq")
    groups = [[(next(letters), d.extent(129 if large and group else 17)) for _ in range(count)]
              for group, count in enumerate(counts)]
    batch, rows, columns, inner = groups
    if math.prod(d.size(e) for g in groups for _, e in g) > 1.2e6:
        raise Refused("too large")
    left, right, out = batch + rows + inner, batch + inner + columns, batch + rows + columns
    for list_ in (left, right, out):
        if d.chance(0.25):
            d.random.shuffle(list_)
    type = d.type()
    a = d.reader(type, [e for _, e in left])
    b = d.reader(type, [e for _, e in right])
    if not is_float(type) and d.chance(0.5):
        other = d.pick(("u8", "i8", "i16"))
        c = d.reader(other, [e for _, e in right])
        b = lambda *i: cast("i32", c(*i))
        first = a
        a = first if type == "i32" else lambda *i: cast("i32", first(*i))
        type = "i32"
    x, y = a(*at(*(n for n, _ in left))), b(*at(*(n for n, _ in right)))
    way = d.random.random()
    if way < 0.7:
        op, body = "sum", x * y
        if d.chance(0.15):
            body = body * d.reader(type, [inner[0][1]])(axis(inner[0][0]))
        if d.chance(0.1) and is_float(type):
            body = x * y * call("exp", -call("abs", x - y))
    elif way < 0.85:
        op, body = d.pick(("min", "max")), d.pick((x + y, call("abs", x - y), x * y))
    else:
        op, body = "sum", d.pick(((x - y) * (x - y), call("abs", x - y), call("max", x, y)))
    product = reduce(op, inner, body)
    if is_float(product.type) and d.chance(0.3):
        product = product * d.pick((0.25, 0.1)) if d.chance(0.5) else product / lift(inner[0][1])
    tensor = d.define(out, product)
    epilogue(d, tensor, out)


def convolution(d):
    dims = d.pick((1, 1, 2, 2, 2, 3))
    kind = d.pick(("plain", "plain", "depthwise", "groups", "transposed"))
    most = {1: 32, 2: 13, 3: 7}[dims]
    batch = [d.extent(3)]
    spatial = [d.extent(most, 2) for _ in range(dims)]
    window = [d.extent(4) for _ in range(dims)]
    stride = d.parameter(d.pick((1, 1, 2, 3))) if d.chance(0.5) else number(d.pick((1, 1, 2, 3)))
    padding = d.parameter(d.pick((0, 1, 2))) if d.chance(0.5) else number(d.pick((0, 1, 2)))
    dilation = number(1 if kind == "transposed" else d.pick((1, 1, 1, 2)))
    type = d.float_type() if d.chance(0.8) else d.type()
    groups = d.pick((2, 3)) if kind == "groups" else 1
    per_in, per_out = d.extent(16), d.extent(16)
    ci = d.let(per_in * groups) if groups > 1 else per_in
    co = d.let(per_out * groups) if groups > 1 else per_out
    if kind == "transposed":
        extents = [(h - 1) * stride - padding * 2 + r for h, r in zip(spatial, window)]
    else:
        extents = [(h + padding * 2 - dilation * (r - 1) - 1) / stride + 1
                   for h, r in zip(spatial, window)]
    if any(d.size(e) < 1 for e in extents):
        raise Refused("no output")
    extents = [d.let(e) for e in extents]
    if kind == "depthwise":
        co, per_in = ci, number(1)
    points = math.prod(map(d.size, batch + extents + window + [co, per_in]))
    if points > 8e5:
        raise Refused("too large")
    image = d.reader(type, batch + spatial + [ci])
    weights = d.reader(type, window + ([ci] if kind == "depthwise" else [per_in, co]))
    y, r = ["y", "x", "z"][:dims], ["r", "s", "t"][:dims]
    taps = []
    for a, b in zip(y, r):
        if kind == "transposed":
            taps.append(axis(a) + padding - axis(b))
        else:
            taps.append(axis(a) * stride + (axis(b) * dilation) - padding)
    channel = axis("c")
    if kind == "groups":
        channel = axis("o") / per_out * per_in + axis("c")
    position = [t / stride for t in taps] if kind == "transposed" else taps
    pixel = image(axis("n"), *position, channel)
    if pixel.kind == "cast":               # pad() holds a read
        pixel = cast(pixel.type, pad(pixel.args[0], number(0)))
    else:
        pixel = pad(pixel, number(0))
    if kind == "depthwise":
        body = pixel * weights(*at(*r), channel)
        inner = list(zip(r, window))
        out = [("n", batch[0])] + list(zip(y, extents)) + [("c", ci)]
    else:
        body = pixel * weights(*at(*r), axis("c"), axis("o"))
        inner = list(zip(r, window)) + [("c", per_in)]
        out = [("n", batch[0])] + list(zip(y, extents)) + [("o", co)]
        if d.chance(0.2):                  # channels first
            out = [out[0], out[-1]] + out[1:-1]
    if kind == "transposed":
        condition = binary("==", taps[0] % stride, number(0))
        for t in taps[1:]:
            condition = binary("&&", condition, binary("==", t % stride, number(0)))
        body = where(condition, body, number(0))
    epilogue(d, d.define(out, reduce("sum", inner, body)), out)


def pool(d):
    dims = d.pick((1, 2, 2, 3))
    spatial = [d.extent(13, 3) for _ in range(dims)]
    channels = [d.extent(16)] if d.chance(0.7) else []
    window = [d.extent(3, 1) for _ in range(dims)]
    stride, padding = number(d.pick((1, 2))), number(d.pick((0, 1)))
    extents = [(h + padding * 2 - r) / stride + 1 for h, r in zip(spatial, window)]
    if any(d.size(e) < 1 for e in extents):
        raise Refused("no output")
    extents = [d.let(e) for e in extents]
    op = d.pick(("max", "min", "sum"))
    type = d.float_type() if d.chance(0.8) else d.type()
    image = d.tensor(type, spatial + channels)
    y, r = ["y", "x", "z"][:dims], ["r", "s", "t"][:dims]
    index = [axis(a) * stride + axis(b) - padding for a, b in zip(y, r)]
    read = image[tuple(index) + at(*["c"][:len(channels)])]
    filling = {"sum": 0, "max": -math.inf, "min": math.inf}[op] if is_float(type) else 0
    value = reduce(op, list(zip(r, window)), pad(read, number(filling)))
    if op == "sum" and is_float(type):
        area = lift(window[0])
        for w in window[1:]:
            area = area * w
        value = value / area
    out = list(zip(y, extents)) + list(zip("c", channels))
    epilogue(d, d.define(out, value), out)


def split_axes(d, rank_most=5):
    """A shape, the names of all axes, and which are reduced (one at least)."""
    rank = d.random.randint(1, rank_most)
    shape = d.extents(rank, 67 if rank <= 2 else 17, 6000)
    axes = axes_of(shape)
    reduced = [a for a in axes if d.chance(0.45)] or [d.pick(axes)]
    return shape, axes, reduced


def others(axes, reduced):
    return [a for a in axes if a not in reduced]


def count_of(reduced):
    count = reduced[0][1]
    for _, e in reduced[1:]:
        count = count * e
    return count


def renamed(node_of, axes, reduced):
    """The node at axes whose reduced ones have names of their own."""
    inner = [(n + n, e) for n, e in reduced]
    names = [n + n if (n, e) in reduced else n for n, e in axes]
    return inner, node_of(*at(*names))


def norm(d):
    shape, axes, reduced = split_axes(d)
    type = d.float_type()
    x = d.reader(type, shape)
    kept = others(axes, reduced)
    names, kept_names = at(*(n for n, _ in axes)), at(*(n for n, _ in kept))
    count, up = count_of(reduced), accumulated(type)
    up_x = (lambda *i: cast(up, x(*i))) if up != type else x
    eps = number(d.pick((1e-5, 1e-3, 0.1)))
    way = d.pick(("layer", "rms", "l2", "max", "standard"))
    inner, body = renamed(up_x, axes, reduced)
    if way in ("layer", "standard"):
        mean = d.define(kept, reduce("sum", inner, body) / count)
        centred = body - mean[kept_names]
        var = d.define(kept, reduce("sum", inner, centred * centred) / count)
        scale = call("rsqrt", var[kept_names] + eps) if way == "layer" else (
            1 / (call("sqrt", var[kept_names] + eps)))
        y = (up_x(*names) - mean[kept_names]) * scale
    elif way == "max":
        top = d.define(kept, reduce("max", inner, call("abs", body)))
        y = up_x(*names) / (top[kept_names] + eps)
    else:
        total = d.define(kept, reduce("sum", inner, body * body))
        total = total[kept_names]
        y = up_x(*names) * call("rsqrt", total / count + eps) if way == "rms" else (
            up_x(*names) / call("sqrt", total + eps))
    if d.chance(0.5):
        gain = d.reader(up, [e for _, e in reduced])
        y = y * gain(*at(*(n for n, _ in reduced)))
    if d.chance(0.3):
        y = y + d.reader(up, [reduced[-1][1]])(axis(reduced[-1][0]))
    if up != type and d.chance(0.5):
        y = cast(type, y)
    epilogue(d, d.define(axes, y), axes)


def mask(d, axes):
    """A condition that leaves out some of the last axis, not necessarily some for each row."""
    i = axis(axes[-2][0]) if len(axes) > 1 else number(2)
    j = axis(axes[-1][0])
    return d.pick((binary("<=", j, i), binary("&&", binary("<=", j, i + 2), binary(">=", j + 2, i)),
                   binary(">=", j, i), binary("!=", (j + i) % 3, number(1))))


def masked(d, value, axes):
    if d.chance(0.6):
        return value
    if d.chance(0.5):
        return where(mask(d, axes), value, number(-math.inf))
    bias = d.input(value.type, [axes[-1][1]], "mask")
    return value + bias[axis(axes[-1][0])]


def softmax_of(d, scores, axes, reduced):
    """The parts of a softmax over `reduced`: a function to the numerator, and the total."""
    kept = others(axes, reduced)
    kept_names = at(*(n for n, _ in kept))
    inner, body = renamed(lambda *i: scores[i], axes, reduced)
    top = d.define(kept, reduce("max", inner, body))
    e = d.define(axes, call("exp", scores[at(*(n for n, _ in axes))] - top[kept_names]))
    inner, body = renamed(lambda *i: e[i], axes, reduced)
    return e, d.define(kept, reduce("sum", inner, body)), top


def softmax(d):
    shape, axes, reduced = split_axes(d)
    type = d.float_type()
    names = at(*(n for n, _ in axes))
    x = d.reader(type, shape)
    value = masked(d, x(*names) * d.pick((1, 0.5, 2)), axes)
    scores = d.define(axes, value)
    e, total, top = softmax_of(d, scores, axes, reduced)
    kept = at(*(n for n, _ in others(axes, reduced)))
    numerator, denominator = e[names], total[kept]
    if total.type != type:
        numerator = cast(total.type, numerator)
    if d.chance(0.25):
        y = call("log", denominator)
        shifted = scores[names] - top[kept]
        y = (cast(total.type, shifted) if total.type != type else shifted) - y
    else:
        y = numerator / denominator
    epilogue(d, d.define(axes, y), axes)


def attention(d):
    type = d.type(("f32", "f16", "bf16", "f64"))
    heads = [("h", d.extent(4))] if d.chance(0.7) else []
    if heads and d.chance(0.4):
        heads = [("b", d.extent(3))] + heads
    s, t, width = d.extent(17), d.extent(31), d.extent(16)
    up = accumulated(type)
    lead = [e for _, e in heads]
    q, k, v = (d.reader(type, lead + [e, width]) for e in (s, t, t))
    h = at(*(n for n, _ in heads))
    axes = heads + [("i", s), ("j", t)]
    score = reduce("sum", [("d", width)], q(*h, *at("i", "d")) * k(*h, *at("j", "d")))
    score = score * (number(1) / call("sqrt", lift(width)))
    scores = d.define(axes, masked(d, score, axes))
    e, total, _ = softmax_of(d, scores, axes, axes[-1:])
    value = v(*h, *at("j", "d"))
    out = heads + [("i", s), ("d", width)]
    weight = e[(*h, *at("i", "j"))]
    if d.chance(0.5):
        p = d.define(axes, weight / total[(*h, axis("i"))])
        weight = p[(*h, *at("i", "j"))]
    y = reduce("sum", [("j", t)], weight * (cast(up, value) if up != type else value))
    if weight.word == e.name:
        y = y / total[(*h, axis("i"))]
    epilogue(d, d.define(out, y), out)


def gated(d):
    """SwiGLU and its like: two products of one operand."""
    m, n, k = d.extent(31), d.extent(31), d.extent(31)
    type = d.float_type()
    x, a, b = d.reader(type, [m, k]), d.reader(type, [k, n]), d.reader(type, [k, n])
    inner, axes = [("k", k)], [("i", m), ("j", n)]
    left = d.define(axes, reduce("sum", inner, x(*at("i", "k")) * a(*at("k", "j"))))
    right = d.define(axes, reduce("sum", inner, x(*at("i", "k")) * b(*at("k", "j"))))
    u, v = left[at("i", "j")], right[at("i", "j")]
    gate = d.pick((u / (1 + call("exp", -u)), u * call("sigmoid", u), call("max", u, number(0)),
                   u * 0.5 * (1 + call("erf", u * 0.7071)), call("sigmoid", u)))
    epilogue(d, d.define(axes, gate * v), axes)


MOTIFS = {contraction: 8, convolution: 7, pool: 3, norm: 5, softmax: 5, attention: 4, gated: 2}
