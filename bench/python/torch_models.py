#!/usr/bin/env python3
"""Models in PyTorch with kernels in place of what was tuned (torch.compile(backend="loopwright")) against
Inductor, as it is and with frozen weights and its own search (max-autotune), for inference on one thread,
interleaved; medians of rounds.

    python bench/python/torch_models.py --seconds 10 [--db lw.db] [MODEL...]
"""
import os
import statistics

os.environ["OMP_NUM_THREADS"] = "1"        # before torch is read
os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"

import torch
from interleaved import compare
from options import tuning_parser

import loopwright as lw

functional = torch.nn.functional


class Convolved(torch.nn.Module):
    """A residual block, normalized."""

    def __init__(self, channels):
        super().__init__()
        self.first, self.second = (torch.nn.Conv2d(channels, channels, 3, padding=1, bias=False)
                                   for _ in range(2))
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm2d(channels) for _ in range(2))

    def forward(self, x):
        y = functional.relu(self.norms[0](self.first(x)))
        return functional.relu(self.norms[1](self.second(y)) + x)


class Separable(torch.nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.first = torch.nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False)
        self.second = torch.nn.Conv2d(channels, channels, 1, bias=False)
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm2d(channels) for _ in range(2))

    def forward(self, x):
        y = functional.relu6(self.norms[0](self.first(x)))
        return functional.relu6(self.norms[1](self.second(y)))


class Transformed(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.three, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.wide, self.narrow = (torch.nn.Linear(width, 4 * width),
                                  torch.nn.Linear(4 * width, width))
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(2))

    def forward(self, x):
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for y in self.three(x).chunk(3, -1))
        mixed = functional.scaled_dot_product_attention(q, k, v)
        x = self.norms[0](x + self.out(mixed.transpose(1, 2).flatten(2)))
        return self.norms[1](x + self.narrow(functional.gelu(self.wide(x))))


MODELS = {
    "mlp": (lambda: torch.nn.Sequential(torch.nn.Linear(768, 3072), torch.nn.ReLU(),
                                        torch.nn.Linear(3072, 768), torch.nn.Softmax(-1)), (64, 768)),
    "layer_norm": (lambda: torch.nn.LayerNorm(768), (512, 768)),
    "residual": (lambda: Convolved(128), (1, 128, 28, 28)),
    "separable": (lambda: Separable(256), (1, 256, 28, 28)),
    "transformer": (lambda: Transformed(768, 12), (1, 128, 768)),
}


def compiled(model, x, settings, **options):
    torch._dynamo.reset()
    with torch._inductor.config.patch(settings):
        function = torch.compile(model, **options)
        function(x)
    return function


def main():
    parser = tuning_parser(__doc__, "torch_models.db")
    parser.add_argument("models", nargs="*", default=list(MODELS))
    options = parser.parse_args()
    ratios = []
    for name in options.models:
        torch.manual_seed(0)
        make, shape = MODELS[name]
        model, x = make().eval(), torch.randn(shape)
        for op, _ in lw.torch.tasks(model, x):
            lw.tune(op, seconds=options.seconds, threads=1, db=options.db)
        with torch.no_grad():
            ours = compiled(model, x, {}, backend="loopwright",
                            options={"db": options.db, "threads": 1})
            plain = compiled(model, x, {})
            frozen = compiled(model, x, {"freezing": True, "max_autotune": True})
            torch.testing.assert_close(ours(x), plain(x), rtol=1e-3, atol=1e-4)
            first, second = compare(ours, plain, [x]), compare(ours, frozen, [x])
        ratios.append((first[2], second[2]))
        print(f"{name:12} {first[0]:9.1f} us, Inductor {first[1]:9.1f} us: {first[2]:.2f} x, frozen "
              f"{second[1]:9.1f} us: {second[2]:.2f} x", flush=True)
    means = [statistics.geometric_mean(side) for side in zip(*ratios)]
    print(f"geometric mean {means[0]:.2f} x, of frozen ones {means[1]:.2f} x")


if __name__ == "__main__":
    main()
