"""The programs of ../workloads/fused.te as users of array libraries write them.

Each takes the inputs in the order of the op and returns its results; `n` is the library's part:
jax_names() or torch_names().
"""


def swiglu_mlp(n, x, w, v, u):
    return (n.silu(x @ w) * (x @ v)) @ u


def geglu_mlp(n, x, w, wb, v, vb, u, ub):
    return (n.gelu_tanh(x @ w + wb) * (x @ v + vb)) @ u + ub


def encoder_block(n, x, g1, b1, wq, wk, wv, wo, g2, b2, w1, c1, w2, c2):
    normed = n.layer_norm(x, g1, b1, 1e-5)
    q, k, v = (n.einsum("sd,dhe->hse", normed, w) for w in (wq, wk, wv))
    scores = n.einsum("hse,hte->hst", q, k) * q.shape[-1] ** -0.5
    mixed = n.einsum("hst,hte->she", n.softmax(scores, -1), v)
    rest = x + n.einsum("she,hed->sd", mixed, wo)
    normed = n.layer_norm(rest, g2, b2, 1e-5)
    return rest + n.gelu_tanh(normed @ w1 + c1) @ w2 + c2


def causal_attention(n, q, k, v):
    return n.attention(q, k, v, causal=True)


def decode_attention(n, q, k, v):
    return n.attention(q[:, None, :], k, v, causal=False)[:, 0, :]


def rope(n, x, c, s):
    half = x.shape[-1] // 2
    turned = n.concatenate([-x[..., half:], x[..., :half]], -1)
    cos, sin = (n.concatenate([t, t], -1)[:, None, :] for t in (c, s))
    return x * cos + turned * sin


def lora(_, x, w, a, b):
    return x @ w + 2 * ((x @ a) @ b)


def dense_residual_norm(n, x, w, b, z, g, c):
    return n.layer_norm(x @ w + b + z, g, c, 1e-5)


def rms_norm_dense(n, x, g, w):
    return (x * n.rsqrt(n.mean(x * x, -1, True) + 1e-5) * g) @ w


def attention_pooling(n, x, w, v):
    weights = n.softmax(n.tanh(x @ w) @ v, -1)
    return n.einsum("bs,bsd->bd", weights, x)


def lstm_step(n, x, h, c, w, u, b):
    gates = n.einsum("bi,iqh->bqh", x, w) + n.einsum("bj,jqh->bqh", h, u) + b
    i, f, g, o = (gates[:, q] for q in range(4))
    cell = n.sigmoid(f) * c + n.sigmoid(i) * n.tanh(g)
    return cell, n.sigmoid(o) * n.tanh(cell)


def gru_step(n, x, h, w, u, b, c):
    a = n.einsum("bi,iqh->bqh", x, w) + b
    e = n.einsum("bj,jqh->bqh", h, u) + c
    reset, update = n.sigmoid(a[:, 0] + e[:, 0]), n.sigmoid(a[:, 1] + e[:, 1])
    new = n.tanh(a[:, 2] + reset * e[:, 2])
    return (1 - update) * new + update * h


def layer_norm_gelu(n, x, g, b):
    return n.gelu_erf(n.layer_norm(x, g, b, 1e-5))


def group_norm_silu(n, x, s, b):
    mean = n.mean(x, (0, 2), True)
    var = n.mean((x - mean) ** 2, (0, 2), True)
    return n.silu((x - mean) * n.rsqrt(var + 1e-5) * s + b)


def batch_norm_relu(n, x, s, b):
    mean = n.mean(x, 0)
    var = n.mean((x - mean) ** 2, 0)
    return mean, var, n.relu((x - mean) * n.rsqrt(var + 1e-5) * s + b)


def column_statistics(n, x):
    mean = n.mean(x, 0)
    return mean, n.mean((x - mean) ** 2, 0)


def cross_entropy(n, x, label):
    return n.mean(n.log_sum_exp(x, -1) - n.pick(x, label), 0)


def log_sum_exp(n, x):
    return n.log_sum_exp(x, -1)


def softmax_middle(n, x):
    return n.softmax(x, 1)


def convnext_block(n, x, k, kb, g, b, w1, c1, w2, c2, scale):
    mixed = n.layer_norm(n.depthwise(x, k) + kb, g, b, 1e-6)
    return x + scale * (n.gelu_erf(mixed @ w1 + c1) @ w2 + c2)


def separable_convolution(n, x, k, kb, p, pb):
    return n.clip(n.relu(n.depthwise(x, k) + kb) @ p + pb, 0, 6)


def residual_block(n, x, f, fb, g, gb):
    return n.relu(n.conv2d(n.relu(n.conv2d(x, f) + fb), g) + gb + x)


def squeeze_excite(n, x, w, wb, v, vb):
    hidden = n.relu(n.mean(x, 0) @ w + wb)
    return x * n.sigmoid(hidden @ v + vb)


def taps(n, x, weights, axis):
    """Sum of shifted pictures, zeros beyond the ends."""
    reach = len(weights) // 2
    wide = n.zero_pad(x, [(reach, reach) if a == axis else (0, 0) for a in range(x.ndim)])
    size = x.shape[axis]
    slices = [wide[i:i + size] if axis == 0 else wide[:, i:i + size] for i in range(len(weights))]
    return sum(w * s for w, s in zip(weights, slices))


def gaussian_blur(n, x, g):
    weights = [g[i] for i in range(g.shape[0])]
    return taps(n, taps(n, x, weights, 1), weights, 0)


def sobel(n, x):
    wide = n.edge_pad(x)
    a = wide[:, 2:] - wide[:, :-2]
    b = wide[:, :-2] + 2 * wide[:, 1:-1] + wide[:, 2:]
    u = a[:-2] + 2 * a[1:-1] + a[2:]
    v = b[2:] - b[:-2]
    return n.sqrt(u * u + v * v)


def heat_steps(n, x):
    for _ in range(2):
        wide = n.zero_pad(x, [(1, 1), (1, 1)])
        x = 0.5 * x + 0.125 * (wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:])
    return x


def laplacian(n, x):
    w = n.zero_pad(x, [(1, 1)] * 3)
    return (w[:-2, 1:-1, 1:-1] + w[2:, 1:-1, 1:-1] + w[1:-1, :-2, 1:-1] + w[1:-1, 2:, 1:-1] +
            w[1:-1, 1:-1, :-2] + w[1:-1, 1:-1, 2:] - 6 * x)


def gaussian_kernel(n, a, b):
    squares = (a * a).sum(-1)[:, None] + (b * b).sum(-1)[None, :]
    return n.exp(-0.01 * n.relu(squares - 2 * (a @ b.T)))


def mahalanobis(n, x, mean, p):
    e = x - mean
    return n.sqrt(n.abs((e @ p * e).sum(-1)))


def both_sides(_, a, x, y):
    return a @ x, y @ a


def triangular_product(n, a, b):
    return n.upper(a) @ b


def jax_names():
    import jax
    from jax import nn, numpy as jnp

    def convolve(x, w, groups):
        return jax.lax.conv_general_dilated(
            x[None], w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"),
            feature_group_count=groups)[0]

    class Names:
        silu, relu, sigmoid, tanh, softmax = nn.silu, nn.relu, nn.sigmoid, jnp.tanh, nn.softmax
        exp, sqrt, abs, einsum, rsqrt = jnp.exp, jnp.sqrt, jnp.abs, jnp.einsum, jax.lax.rsqrt
        concatenate, log_sum_exp, upper, clip = jnp.concatenate, nn.logsumexp, jnp.triu, jnp.clip

        @staticmethod
        def mean(x, axes, keep=False):
            return jnp.mean(x, axes, keepdims=keep)

        @staticmethod
        def gelu_tanh(x):
            return nn.gelu(x, approximate=True)

        @staticmethod
        def gelu_erf(x):
            return nn.gelu(x, approximate=False)

        @staticmethod
        def layer_norm(x, g, b, eps):
            mean = jnp.mean(x, -1, keepdims=True)
            var = jnp.var(x, -1, keepdims=True)
            return (x - mean) * jax.lax.rsqrt(var + eps) * g + b

        @staticmethod
        def attention(q, k, v, causal):
            scores = jnp.einsum("hsd,htd->hst", q, k) * q.shape[-1] ** -0.5
            if causal:
                seen = jnp.tril(jnp.ones(scores.shape[1:], bool))
                scores = jnp.where(seen, scores, -jnp.inf)
            return jnp.einsum("hst,htd->hsd", nn.softmax(scores, -1), v)

        @staticmethod
        def pick(x, label):
            return jnp.take_along_axis(x, label[:, None], 1)[:, 0]

        @staticmethod
        def conv2d(x, w):
            return convolve(x, w, 1)

        @staticmethod
        def depthwise(x, k):
            return convolve(x, k[:, :, None, :], x.shape[-1])

        @staticmethod
        def zero_pad(x, widths):
            return jnp.pad(x, widths)

        @staticmethod
        def edge_pad(x):
            return jnp.pad(x, 1, mode="edge")

    return Names


def torch_names():
    import torch
    from torch.nn import functional as f

    def convolve(x, w, groups):
        y = f.conv2d(x.permute(2, 0, 1)[None], w, padding=w.shape[-1] // 2, groups=groups)
        return y[0].permute(1, 2, 0)

    class Names:
        silu, relu, sigmoid, tanh, softmax = f.silu, f.relu, torch.sigmoid, torch.tanh, f.softmax
        exp, sqrt, abs, einsum, rsqrt = torch.exp, torch.sqrt, torch.abs, torch.einsum, torch.rsqrt
        concatenate, log_sum_exp, upper, clip = torch.cat, torch.logsumexp, torch.triu, torch.clip

        @staticmethod
        def mean(x, axes, keep=False):
            return torch.mean(x, axes, keepdim=keep)

        @staticmethod
        def gelu_tanh(x):
            return f.gelu(x, approximate="tanh")

        @staticmethod
        def gelu_erf(x):
            return f.gelu(x)

        @staticmethod
        def layer_norm(x, g, b, eps):
            return f.layer_norm(x, x.shape[-1:], g, b, eps)

        @staticmethod
        def attention(q, k, v, causal):
            return f.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=causal)[0]

        @staticmethod
        def pick(x, label):
            return x.gather(1, label.long()[:, None])[:, 0]

        @staticmethod
        def conv2d(x, w):
            return convolve(x, w.permute(3, 2, 0, 1), 1)

        @staticmethod
        def depthwise(x, k):
            return convolve(x, k.permute(2, 0, 1)[:, None], x.shape[-1])

        @staticmethod
        def zero_pad(x, widths):
            return f.pad(x, [w for pair in reversed(widths) for w in pair])

        @staticmethod
        def edge_pad(x):
            return f.pad(x[None], (1, 1, 1, 1), mode="replicate")[0]

    return Names
