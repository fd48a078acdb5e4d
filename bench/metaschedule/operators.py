"""The suite's operators (../workloads/ansor.json) as TVM's own users would write them."""
from tvm import te
import tvm.topi as topi


def padded(x, pads):
    """pads: a number of zeros on both sides of every dimension."""
    return topi.nn.pad(x, pads, pads) if any(pads) else x


def out_size(size, p, dilation=1):
    return (size + 2 * p["pad"] - dilation * (p["kernel"] - 1) - 1) // p["stride"] + 1


def convolution(p, sizes, groups=1, dilation=1):
    """NHWC-like layouts of any rank; weights [*kernel, ci / groups, co]."""
    rank, ci, co, k, s = len(sizes), p["ci"] // groups, p["co"], p["kernel"], p["stride"]
    x = te.placeholder((p["batch"], *sizes, p["ci"]), name="X")
    w = te.placeholder((*[k] * rank, ci, co), name="W")
    zeros = padded(x, [0, *[p["pad"]] * rank, 0])
    taps = [te.reduce_axis((0, k), name=f"r{i}") for i in range(rank)]
    channel = te.reduce_axis((0, ci), name="ci")

    def body(n, *at):
        *place, c = at
        first = c // (co // groups) * ci if groups > 1 else 0
        pixel = [place[i] * s + taps[i] * dilation for i in range(rank)]
        return te.sum(zeros(n, *pixel, first + channel) * w(*taps, channel, c), axis=[*taps, channel])

    shape = (p["batch"], *[out_size(size, p, dilation) for size in sizes], co)
    return x, w, te.compute(shape, body, name="Y")


def depthwise(p):
    k, s = p["kernel"], p["stride"]
    x = te.placeholder((p["batch"], p["h"], p["w"], p["c"]), name="X")
    w = te.placeholder((k, k, p["c"]), name="W")
    zeros = padded(x, [0, p["pad"], p["pad"], 0])
    r, q = te.reduce_axis((0, k), name="r"), te.reduce_axis((0, k), name="q")
    shape = (p["batch"], out_size(p["h"], p), out_size(p["w"], p), p["c"])
    return x, w, te.compute(
        shape, lambda n, y, v, c: te.sum(zeros(n, y * s + r, v * s + q, c) * w(r, q, c), axis=[r, q]))


def transposed(p):
    k, s = p["kernel"], p["stride"]
    x = te.placeholder((p["batch"], p["h"], p["w"], p["ci"]), name="X")
    w = te.placeholder((k, k, p["ci"], p["co"]), name="W")
    edge = k - 1 - p["pad"]
    zeros = padded(topi.nn.dilate(x, [1, s, s, 1]), [0, edge, edge, 0])
    r, q = te.reduce_axis((0, k), name="r"), te.reduce_axis((0, k), name="q")
    ci = te.reduce_axis((0, p["ci"]), name="ci")
    sizes = [(p[d] - 1) * s - 2 * p["pad"] + k for d in ("h", "w")]
    return x, w, te.compute(
        (p["batch"], *sizes, p["co"]),
        lambda n, y, v, c: te.sum(zeros(n, y + r, v + q, ci) * w(k - 1 - r, k - 1 - q, ci, c),
                                  axis=[r, q, ci]))


def capsule(p):
    k, s, m, ci, co = p["kernel"], p["stride"], p["capsule"], p["ci"], p["co"]
    x = te.placeholder((p["batch"], p["h"], p["w"], m, m, ci), name="X")
    w = te.placeholder((k, k, m, m, ci, co), name="W")
    zeros = padded(x, [0, p["pad"], p["pad"], 0, 0, 0])
    r, q = te.reduce_axis((0, k), name="r"), te.reduce_axis((0, k), name="q")
    inner, channel = te.reduce_axis((0, m), name="m"), te.reduce_axis((0, ci), name="ci")
    shape = (p["batch"], out_size(p["h"], p), out_size(p["w"], p), m, m, co)
    return x, w, te.compute(
        shape, lambda n, y, v, i, j, c: te.sum(
            zeros(n, y * s + r, v * s + q, i, inner, channel) * w(r, q, inner, j, channel, c),
            axis=[r, q, inner, channel]))


def product(p):
    a = te.placeholder((p["batch"], p["n"], p["k"]), name="A")
    b = te.placeholder((p["batch"], p["k"], p["m"]), name="B")
    k = te.reduce_axis((0, p["k"]), name="k")
    return a, b, te.compute((p["batch"], p["n"], p["m"]),
                            lambda n, i, j: te.sum(a[n, i, k] * b[n, k, j], axis=k))


def norm(p):
    x = te.placeholder((p["batch"], p["m"], p["n"]), name="X")
    i, j = te.reduce_axis((0, p["m"]), name="i"), te.reduce_axis((0, p["n"]), name="j")
    squares = te.compute((p["batch"],), lambda n: te.sum(x[n, i, j] * x[n, i, j], axis=[i, j]))
    return x, te.compute((p["batch"],), lambda n: te.sqrt(squares[n]))


def scaled(p):
    x, w, y = convolution(p, [p["h"], p["w"]])
    scale = te.placeholder((p["co"],), name="scale")
    shift = te.placeholder((p["co"],), name="shift")
    z = te.compute(y.shape, lambda *at: te.max(y(*at) * scale[at[-1]] + shift[at[-1]], 0.0))
    return x, w, scale, shift, z


def scores(p):
    shape = (p["batch"], p["seq"], p["heads"], p["dim"])
    q, k = te.placeholder(shape, name="Q"), te.placeholder(shape, name="K")
    d = te.reduce_axis((0, p["dim"]), name="d")
    s = te.compute((p["batch"], p["heads"], p["seq"], p["seq"]),
                   lambda n, h, i, j: te.sum(q[n, i, h, d] * k[n, j, h, d], axis=d))
    return q, k, topi.nn.softmax(s, axis=-1)


def define(case):
    """The tensors of a case: what it reads, then what it computes."""
    p, op = case["params"], case["op"]
    kinds = {
        "C1D": lambda: convolution(p, [p["length"]]),
        "C2D": lambda: convolution(p, [p["h"], p["w"]]),
        "C3D": lambda: convolution(p, [p["d"], p["h"], p["w"]]),
        "GRP": lambda: convolution(p, [p["h"], p["w"]], groups=p["groups"]),
        "DIL": lambda: convolution(p, [p["h"], p["w"]], dilation=p["dilation"]),
        "DEP": lambda: depthwise(p), "T2D": lambda: transposed(p), "CAP": lambda: capsule(p),
        "GMM": lambda: product(p), "NRM": lambda: norm(p), "CBR": lambda: scaled(p),
        "TBS": lambda: scores(p)}
    return list(kinds[op]())
