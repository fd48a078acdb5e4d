#!/usr/bin/env python3
"""Tunes cases of ../workloads/ansor.json with TVM MetaSchedule: a JSON line and a library each.

  python3 -m venv V && V/bin/pip install apache-tvm==0.27.0.post1 apache-tvm-ffi==0.1.14.post0 \
      xgboost==3.2.0 numpy cloudpickle psutil tornado
  taskset -c 0 V/bin/python tune.py --keep FOLDER GMM3_b1 DEP1_b1 > tvm.jsonl 2> tvm.log

(apache-tvm-ffi 0.1.15 is accepted by pip and crashes.) compare.py then runs the libraries beside
ours. A line: name, trials, wall_s, best_us (TVM's own measurement), recheck_us (the median of 7
samples of 100 ms at least, afterwards), curve: [wall_s, trials, best_us] at every improvement.
"""
import argparse
import json
import os
import pathlib
import sys
import tempfile
import time


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--trials", type=int, default=256)
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--keep", required=True, help="folder for the libraries")
    parser.add_argument("--workloads", default=str(
        pathlib.Path(__file__).resolve().parents[1] / "workloads" / "ansor.json"))
    parser.add_argument("names", nargs="+")
    return parser.parse_args()


ARGS = options()
os.environ["TVM_NUM_THREADS"] = str(ARGS.cores)
LINES = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)                              # TVM logs to stdout

import numpy as np                         # noqa: E402  (after the environment is set)
import tvm                                 # noqa: E402
import tvm.s_tir.tensor_intrin             # noqa: E402,F401  seconds of Python, outside the clock
from tvm import te                         # noqa: E402
from tvm.ir.utils import derived_object    # noqa: E402
from tvm.s_tir import meta_schedule as ms  # noqa: E402
from operators import define               # noqa: E402


def build(mod, target, _params):
    """TVM's default, without the import that parses all of its tensor intrinsics in every worker
    at every batch: on one core that runs into the builder's time limit."""
    import tvm
    from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock
    bare = RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(mod)
    return tvm.driver.build(bare, target=target)


class Curve:
    def __init__(self):
        self.start, self.trials, self.best, self.points = time.time(), 0, float("inf"), []

    def add(self, results):
        for result in results:
            self.trials += 1
            if not result.run_secs:
                continue
            us = float(np.mean([float(s) for s in result.run_secs])) * 1e6
            if us < self.best:
                self.best = us
                self.points.append([round(self.seconds(), 2), self.trials, round(us, 2)])

    def seconds(self):
        return time.time() - self.start


def tune(case):
    tensors = define(case)
    mod = tvm.IRModule({"main": te.create_prim_func(tensors)})
    target = tvm.target.Target({"kind": "llvm", "num-cores": ARGS.cores,
                                "mcpu": tvm.target.codegen.llvm_get_system_cpu()})
    curve = Curve()

    @derived_object
    class Watch(ms.measure_callback.PyMeasureCallback):
        def apply(self, task_scheduler, task_id, measure_candidates, builder_results,
                  runner_results):
            curve.add(runner_results)

    database = ms.tir_integration.tune_tir(
        mod, target, tempfile.mkdtemp(), max_trials_global=ARGS.trials, num_trials_per_iter=64,
        database="memory", num_tuning_cores=ARGS.cores, seed=ARGS.seed,
        builder=ms.builder.LocalBuilder(max_workers=ARGS.cores, f_build=build),
        measure_callbacks=[*ms.MeasureCallback.create("default"), Watch()])
    wall = curve.seconds()
    schedule = ms.tir_integration.compile_tir(database, mod, target)
    built = tvm.compile(schedule.mod, target)
    built.export_library(os.path.join(ARGS.keep, case["name"] + ".so"))
    rng = np.random.default_rng(0)
    arrays = [tvm.runtime.tensor(
        rng.standard_normal([int(d) for d in t.shape]).astype("float32"), tvm.cpu())
        for t in tensors]
    samples = built.jit().time_evaluator("main", tvm.cpu(), number=1, repeat=7,
                                         min_repeat_ms=100)(*arrays).results
    return {"trials": curve.trials, "wall_s": round(wall, 1), "best_us": round(curve.best, 2),
            "recheck_us": round(float(np.median(samples)) * 1e6, 2), "cores": ARGS.cores,
            "version": tvm.__version__, "curve": curve.points}


def main():
    os.makedirs(ARGS.keep, exist_ok=True)
    with open(ARGS.workloads, encoding="utf-8") as file:
        cases = {c["name"]: c for c in json.load(file)["workloads"]}
    unknown = [name for name in ARGS.names if name not in cases]
    if unknown:
        sys.exit(f"{ARGS.workloads} has no {', '.join(unknown)}")
    for name in ARGS.names:
        try:
            line = tune(cases[name])
        except Exception as error:         # what the peer cannot do is a result, too
            line = {"error": repr(error)[:300]}
        print(json.dumps({"name": name, **line}), file=LINES, flush=True)


main()
