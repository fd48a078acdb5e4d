"""Times functions of device tensors side by side.

A sample is one replay of a captured graph of r calls, between two events, over r: so the time of a
call includes the gap to the next launch of the graph (about 1 us), and not the host. r is such that
a sample lasts `sample_ms`. `cold`: the calls go round as many sets of operands as 4 times the L2
holds; `warm`: all on one set. The samples of the contenders of a row are taken in turns, in a new
order each round; the median and the quartiles are over rounds. Data are random, never zeros
(which draw less power and run faster). Clocks are as found: a thread reads the SM clock, the power
and the throttle reasons all the while.
"""
import gc
import math
import random
import statistics
import threading
import time

import pynvml
import torch

HEAT = 4                                   # rounds before those that count


class Watch(threading.Thread):
    """Reads the card's state every 20 ms."""

    def __init__(self):
        super().__init__(daemon=True)
        pynvml.nvmlInit()
        self.card = pynvml.nvmlDeviceGetHandleByIndex(0)
        self.states = []                   # (seconds, SM MHz, W, C, throttle reasons)
        self.start()

    def run(self):
        nvml = pynvml
        reasons = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons",
                          getattr(nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", None))
        while True:
            self.states.append((time.monotonic(), nvml.nvmlDeviceGetClockInfo(self.card, nvml.NVML_CLOCK_SM),
                                nvml.nvmlDeviceGetPowerUsage(self.card) / 1000,
                                nvml.nvmlDeviceGetTemperature(self.card, nvml.NVML_TEMPERATURE_GPU),
                                reasons(self.card)))
            time.sleep(0.02)

    def between(self, begin, end):
        """Medians over an interval; the union of the reasons to throttle, but that of being idle."""
        seen = [s for s in self.states if begin <= s[0] <= end] or self.states[-1:]
        union = 0
        for s in seen:
            union |= s[4] & ~1
        return {"sm_mhz": statistics.median(s[1] for s in seen), "sm_mhz_low": min(s[1] for s in seen),
                "watt": round(statistics.median(s[2] for s in seen)), "celsius": seen[-1][3],
                "throttle": hex(union)}


def quartiles(values):
    values = sorted(values)
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return middle, low, high


def sets_of(row, regime, l2):
    return 1 if regime == "warm" else min(256, max(1, math.ceil(4 * l2 / row.bytes)))


def elapsed(call):
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e-3


class Contender:
    """A function with its graph."""

    def __init__(self, name, function, sets, sample_s):
        self.name, self.function, self.samples, self.mode = name, function, [], "graph"
        calls = len(sets)
        for _ in range(3):
            function(*sets[0])
        torch.cuda.synchronize()
        once = min(elapsed(lambda: [function(*one) for one in sets]) / calls for _ in range(2))
        self.calls = calls * max(1, min(round(sample_s / once / calls), math.ceil(2000 / calls)))
        self.sets, self.kept = sets, [None] * calls
        self.graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(self.graph):
                self.run()
        except RuntimeError as error:      # what cannot be captured is timed with its host
            torch.cuda.synchronize()
            self.graph, self.mode = None, "stream"
            print(f"  {name}: not captured: {str(error).splitlines()[0][:90]}", flush=True)
        self.sample()

    def run(self):
        for i in range(self.calls):        # outputs are kept, so that they go round too
            self.kept[i % len(self.sets)] = self.function(*self.sets[i % len(self.sets)])

    def sample(self):
        return elapsed(self.graph.replay if self.graph else self.run) / self.calls


def difference(found, expected):
    found, expected = found.float(), expected.float()
    return ((found - expected).norm() / expected.norm()).item()


def time_row(row, regime, watch, rounds, l2):
    """One result per contender of the row: a dictionary, or one that says why there is none."""
    sets = [row.make() for _ in range(sets_of(row, regime, l2))]
    contenders, results, reference = [], {}, None
    for name, function in row.peers.items():
        try:
            made = function(*sets[0])
            error = 0.0 if reference is None else difference(made, reference)
            reference = made if reference is None else reference
            del made
            contenders.append(Contender(name, function, sets, row.sample_ms * 1e-3))
            results[name] = {"sets": len(sets), "calls": contenders[-1].calls, "mode": contenders[-1].mode,
                             "difference": error, **getattr(function, "detail", {})}
        except Exception as error:         # a peer that does not take a row is a result too
            results[name] = {"failed": f"{type(error).__name__}: {error}".splitlines()[0][:160]}
            torch.cuda.synchronize()
    del reference
    if row.copy:                           # half the row's bytes read, half written
        sources = [(torch.randint(-9, 9, (int(row.bytes) // 8,), dtype=torch.int32, device="cuda"),)
                   for _ in sets]
        contenders.append(Contender("copy", torch.clone, sources, row.sample_ms * 1e-3))
        results["copy"] = {"sets": len(sets), "calls": contenders[-1].calls}
    for _ in range(HEAT):
        for one in contenders:
            one.sample()
    begin = time.monotonic()
    for _ in range(rounds):
        for one in random.sample(contenders, len(contenders)):
            one.samples.append(one.sample())
    state = watch.between(begin, time.monotonic())
    for one in contenders:
        middle, low, high = quartiles(one.samples)
        results[one.name].update(us=middle * 1e6, q1=low * 1e6, q3=high * 1e6, rounds=rounds,
                                 samples=[float(f"{s * 1e6:.5g}") for s in one.samples], **state)
    contenders.clear()
    for function in row.peers.values():    # what was laid out for these operands goes with them
        getattr(function, "packed", {}).clear()
    del sets
    gc.collect()
    torch.cuda.empty_cache()
    return results
