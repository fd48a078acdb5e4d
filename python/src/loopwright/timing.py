"""How long calls take."""
from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class Timing(NamedTuple):
    """Of a call, in microseconds: the median of batches, and the middle half of them."""

    us: float
    low_us: float
    high_us: float
    calls: int


def time_calls(kernel: Callable[..., Any], inputs: Sequence[Any], seconds: float) -> Timing:
    results = kernel(*inputs)
    start = time.perf_counter()
    kernel(*inputs, out=results)
    once = max(time.perf_counter() - start, 1e-7)
    batch = max(1, int(seconds / 20 / once))
    times: list[float] = []
    while sum(times) < seconds:
        start = time.perf_counter()
        for _ in range(batch):
            kernel(*inputs, out=results)
        times.append(time.perf_counter() - start)
    each = [t / batch * 1e6 for t in times]
    low, middle, high = (statistics.quantiles(each, n=4) if len(each) > 1 else each * 3)
    return Timing(middle, low, high, batch * len(each))
