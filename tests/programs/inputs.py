"""Draws inputs, at natural magnitudes or at the edges, and writes them as NumPy files."""
import numpy as np

from values import FLOOR, LARGEST, STORED, is_float, limits, nearest


def draw(rng, type, shape, kind, most=None):
    """f64 or i64 elements that the type holds.

    kind: natural, positive, uniform (-1 to 1), edge, mask (0 or -inf), index (below `most`),
    full (all the type's integers), sweep (evenly from -most to most)."""
    if kind == "index":
        return rng.integers(0, most, shape)
    if not is_float(type):
        return integers(rng, type, shape, kind)
    if kind == "positive":
        x = rng.uniform(0.25, 2, shape)
    elif kind == "uniform":
        x = rng.uniform(-1, 1, shape)
    elif kind == "mask":
        x = np.where(rng.random(shape) < 0.3, -np.inf, 0.0)
    elif kind == "sweep":
        number = int(np.prod(shape))
        x = np.linspace(-most, most, number).reshape(shape)
        x = np.where(rng.random(shape) < 0.05, np.rint(x), x)
    elif kind == "edge":
        x = edges(rng, type, shape)
    else:
        x = rng.standard_normal(shape)
    return nearest(type, x)


def integers(rng, type, shape, kind):
    bottom, top = limits(type)
    if type == "bool":
        return rng.integers(0, 2, shape)
    if kind == "full" or kind == "edge":
        x = rng.integers(bottom, top, shape, endpoint=True)
        special = rng.choice(np.array([bottom, top, 0, 1, top // 2]), shape)
        return np.where(rng.random(shape) < 0.2, special, x)
    if kind == "positive":
        return rng.integers(1, 8, shape)
    return rng.integers(max(bottom, -9), 10, shape)


def edges(rng, type, shape):
    """Zeros, subnormals, large numbers, equal rows; or a mixture."""
    tiny, large = FLOOR[type], LARGEST[type] ** 0.5
    normal = rng.standard_normal(shape)
    way = rng.integers(0, 5)
    if way == 0:
        return np.zeros(shape)
    if way == 1:
        return normal * tiny * 0.3
    if way == 2:
        return normal * large
    if way == 3 and len(shape) > 0:
        return np.broadcast_to(normal[..., :1], shape)
    options = np.stack([np.zeros(shape), normal * tiny, normal * large * 0.01, normal, normal * 30])
    return np.take_along_axis(options, rng.integers(0, 5, (1,) + tuple(shape)), 0)[0]


def stored(type, data):
    """As a .npy file holds it; bf16 as its bits."""
    if type == "bf16":
        return (np.asarray(data, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return np.asarray(data).astype(STORED[type])


def loaded(type, array):
    if type == "bf16":
        bits = np.asarray(array.view(np.uint16).astype(np.uint32) * np.uint32(1 << 16))
        return bits.view(np.float32).astype(np.float64)
    return array
