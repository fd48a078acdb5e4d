#!/usr/bin/env python3
"""Our tuner beside TVM MetaSchedule: its libraries (tune.py) and our kernels, interleaved.

  taskset -c 0 V/bin/python compare.py --tvm tvm.jsonl --keep FOLDER --loopwright ../../build/loopwright

Each case is tuned by us from nothing (weights not const: what TVM is given), its best kernel
exported, and both run in turns on the same arrays. "to theirs" is when our search had found a
kernel at least as fast as TVM's final one is in this comparison.
"""
import argparse
import ctypes
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import time

os.environ["TVM_NUM_THREADS"] = "1"        # else its kernels share the processor with themselves

import numpy as np                         # noqa: E402  (after the environment is set)
import tvm                                 # noqa: E402
from operators import define               # noqa: E402

ROUND_S = 0.02                             # of calls of one contender in a row
APART = ("T2D", "TBS")                     # the bar is stated with and without them

SHIM = """
#include "%s"
#include <stdlib.h>
#include <time.h>
double lw_seconds(void* const* buffers, long calls) {
  static void *workspace, *packed;
  if (workspace == NULL) {
    workspace = aligned_alloc(64, (%s_WORKSPACE_BYTES(1) + 127) / 64 * 64);
    packed = aligned_alloc(64, (%s_PACKED_BYTES + 127) / 64 * 64);
  }
  const lw_context context = {NULL, NULL, 1, workspace, packed};
  struct timespec from, to;
  clock_gettime(CLOCK_MONOTONIC, &from);
  for (long i = 0; i < calls; ++i) %s(&context, buffers);
  clock_gettime(CLOCK_MONOTONIC, &to);
  return (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
}
"""


def command(words):
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def our_words(args, name):
    """The words of a case of the suite."""
    database = os.path.join(args.keep, "words.db")
    found = json.loads(command([args.loopwright, "tune", "--suite", args.workloads, name, "--trials",
                                "0", "--threads", "1", "--json", "--db", database]))
    found = found["workloads"][0] if "workloads" in found else found
    return found["workload"].split()


class Ours:
    """Tuned, exported, and linked with a clock."""

    def __init__(self, args, name):
        folder = pathlib.Path(args.keep) / ("ours_" + name)
        folder.mkdir(exist_ok=True)
        database = folder / "tuned.db"
        for old in folder.glob("*"):
            old.unlink()
        common = [*our_words(args, name), "--const", "none", "--threads", "1", "--db", str(database)]
        begin = time.monotonic()
        self.tuned = json.loads(command([args.loopwright, "tune", *common, "--json", "--trials", "200",
                                         "--seconds", str(args.seconds)]))
        self.wall = time.monotonic() - begin
        command([args.loopwright, "export", *common, "-o", str(folder)])
        header = next(folder.glob("*.h"))
        entry, upper = header.stem, header.stem.upper()
        self.arguments = json.loads(header.with_suffix(".json").read_text())["arguments"]
        shim, library = folder / "shim.c", folder / "kernel.so"
        shim.write_text(SHIM % (header.name, upper, upper, entry))
        command(["cc", "-O2", "-shared", "-fPIC", str(shim), str(header.with_suffix(".o")), "-o",
                 str(library)])
        self.seconds = ctypes.CDLL(str(library)).lw_seconds
        self.seconds.restype = ctypes.c_double
        self.seconds.argtypes = [ctypes.c_void_p, ctypes.c_long]


def aligned(shape, rng):
    size = int(np.prod(shape))
    room = np.empty(size + 16, dtype=np.float32)
    start = -room.ctypes.data % 64 // 4
    values = room[start:start + size].reshape(shape)
    values[...] = rng.standard_normal(shape) if rng else 0
    return values


def compare(args, line):
    name = line["name"]
    ours = Ours(args, name)
    rng = np.random.default_rng(0)
    arrays = [aligned(a["shape"], rng if a["role"] == "in" else None) for a in ours.arguments]
    pointers = (ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays])
    # Ours may name batches and groups otherwise: the elements lie alike.
    module = tvm.runtime.load_module(os.path.join(args.keep, name + ".so"))
    theirs = [tvm.runtime.tensor(a.reshape(shape), tvm.cpu())
              for a, shape in zip(arrays, args.shapes[name])]
    function = module["main"]

    def their_seconds(calls):
        timed = module.time_evaluator("main", tvm.cpu(), number=calls, repeat=1)(*theirs)
        return timed.results[0] * calls

    contenders = [lambda n: ours.seconds(ctypes.addressof(pointers), n), their_seconds]
    function(*theirs)
    contenders[0](1)
    apart = float(np.max(np.abs(theirs[-1].numpy().ravel() - arrays[-1].ravel())) /
                  max(1e-30, float(np.max(np.abs(arrays[-1])))))
    calls = [max(1, int(ROUND_S / max(1e-7, min(run(1) for _ in range(3))))) for run in contenders]
    rounds = [[run(n) / n * 1e6 for run, n in zip(contenders, calls)] for _ in range(args.rounds)]
    mine, other = (statistics.median(column) for column in zip(*rounds))
    ratios = sorted(b / a for a, b in rounds)
    reached = [s for s, _trials, us in ours.tuned["curve"] if us <= other]
    return {"name": name, "ours_us": mine, "tvm_us": other,
            "ratio": statistics.median(ratios), "interval": [ratios[len(ratios) // 8],
                                                             ratios[-1 - len(ratios) // 8]],
            "seconds": ours.wall, "seconds_to_theirs": reached[0] if reached else None,
            "tvm_seconds": line["wall_s"], "tvm_trials": line["trials"], "apart": apart,
            "trials": ours.tuned["trials"]}


def geomean(values):
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def report(rows):
    print(f"{'case':10} {'ours us':>10} {'TVM us':>10} {'ratio':>6}  {'12 to 88 %':>13} "
          f"{'ours s':>7} {'to theirs':>9} {'TVM s':>7} {'fewer':>7}")
    for r in rows:
        reached = r["seconds_to_theirs"]
        print(f"{r['name']:10} {r['ours_us']:10.2f} {r['tvm_us']:10.2f} {r['ratio']:6.2f}  "
              f"{r['interval'][0]:5.2f} .. {r['interval'][1]:5.2f} {r['seconds']:7.1f} "
              f"{'never' if reached is None else format(reached, '.2f'):>9} {r['tvm_seconds']:7.1f} "
              f"{'' if reached is None else format(r['tvm_seconds'] / reached, '.0f') + 'x':>7}"
              + ("" if r["apart"] < 1e-3 else f"  results differ by {r['apart']:.1g}"))
    rest = [r for r in rows if not r["name"].startswith(APART)]
    reached = [r for r in rows if r["seconds_to_theirs"] is not None]
    fewer = geomean(r["tvm_seconds"] / r["seconds_to_theirs"] for r in reached)
    bars = [("final over TVM's, geomean >= 1.5", geomean(r["ratio"] for r in rows), 1.5),
            (f"the same without {' and '.join(APART)} >= 1.15", geomean(r["ratio"] for r in rest), 1.15),
            ("each >= 0.95", min(r["ratio"] for r in rows), 0.95),
            (f"seconds to TVM's final, times fewer >= 20 ({len(reached)} of {len(rows)} reached it)",
             fewer, 20)]
    for what, value, bar in bars:
        print(f"  {'met   ' if value >= bar else 'MISSED'} {what}: {value:.3g}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tvm", required=True, help="the lines of tune.py")
    parser.add_argument("--keep", required=True, help="its folder of libraries; ours go there, too")
    parser.add_argument("--loopwright", required=True)
    parser.add_argument("--seconds", type=float, default=60, help="of one tune of ours, at most")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--json", help="log of all results")
    parser.add_argument("--workloads", default=str(
        pathlib.Path(__file__).resolve().parents[1] / "workloads" / "ansor.json"))
    args = parser.parse_args()
    with open(args.workloads, encoding="utf-8") as file:
        cases = {c["name"]: c for c in json.load(file)["workloads"]}
    rows = []
    with open(args.tvm, encoding="utf-8") as file:
        lines = [json.loads(text) for text in file]
    args.shapes = {line["name"]: [[int(d) for d in t.shape] for t in define(cases[line["name"]])]
                   for line in lines}
    for line in lines:
        if "error" in line:
            print(f"{line['name']}: TVM failed: {line['error']}", file=sys.stderr)
            continue
        rows.append(compare(args, line))
        print(f"{line['name']} {rows[-1]['ratio']:.2f}", file=sys.stderr, flush=True)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"tvm": tvm.__version__, "results": rows}, file, indent=1)
    report(rows)


main()
