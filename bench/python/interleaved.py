"""Two ways to the same result, timed in turn, so that a drifting clock meets both."""
import statistics
import time

ROUNDS = 21
SHORTEST_US = 2000                         # of a round: short functions are called often enough


def _microseconds(function, inputs, calls):
    start = time.perf_counter()
    for _ in range(calls):
        result = function(*inputs)
    getattr(result, "block_until_ready", int)()            # JAX returns before it is done
    return (time.perf_counter() - start) * 1e6 / calls


def compare(ours, theirs, inputs):
    """Of functions of arrays, compiled by a call before: the median microseconds of each, and the
    median ratio, theirs to ours."""
    first = [_microseconds(function, inputs, 1) for function in (ours, theirs)]
    calls = [max(1, int(SHORTEST_US / one)) for one in first]
    pairs = [[_microseconds(function, inputs, n) for function, n in zip((ours, theirs), calls)]
             for _ in range(ROUNDS)]
    mine, other = (statistics.median(side) for side in zip(*pairs))
    return mine, other, statistics.median(b / a for a, b in pairs)
