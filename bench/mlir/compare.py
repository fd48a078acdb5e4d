#!/usr/bin/env python3
"""The suite's schedules through stock MLIR 19, beside our kernels of the same schedules.

    bench/mlir/compare.py [--build build] [--db FILE] [--plain] [--json FILE] [NAME...]

For every case (of batch 1 unless named; bench/workloads/ansor.json): exports the best schedule of the
database, else the zero-trial one, for one thread, as an object of ours and as a transform script;
makes objects of both, and of our kernel as MLIR's LLVM dialect has it; times them interleaved
(bench/mlir/timer.c: medians of 15 rounds). --plain also times the payload without a schedule. Prints
a line a case, with the share of our speed, and what was refused beside the geometric mean of the
rest: never the mean alone.
"""
import argparse
import collections
import json
import math
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]

CONV2D = {"N": "batch", "H": "h", "W": "w", "CI": "ci", "CO": "co", "R": "kernel", "S": "kernel",
          "stride": "stride", "pad": "pad"}
OPERATORS = {  # of the suite: ours, and our parameters by its
    "C1D": ("conv1d", {"N": "batch", "L": "length", "CI": "ci", "CO": "co", "R": "kernel",
                       "stride": "stride", "pad": "pad"}),
    "C2D": ("conv2d", CONV2D),
    "C3D": ("conv3d", {"N": "batch", "D": "d", "H": "h", "W": "w", "CI": "ci", "CO": "co",
                       "R": "kernel", "stride": "stride", "pad": "pad"}),
    "GRP": ("conv2d_grouped", CONV2D | {"groups": "groups"}),
    "DIL": ("conv2d_dilated", CONV2D | {"dilation": "dilation"}),
    "DEP": ("conv2d_depthwise", {"N": "batch", "H": "h", "W": "w", "C": "c", "R": "kernel",
                                 "S": "kernel", "stride": "stride", "pad": "pad"}),
    "T2D": ("conv2d_transpose", {"N": "batch", "H": "h", "W": "w", "CI": "ci", "CO": "co",
                                 "R": "kernel", "stride": "stride", "pad": "pad"}),
    "CAP": ("conv2d_capsule", CONV2D | {"Q": "capsule"}),
    "GMM": ("batch_matmul", {"B": "batch", "M": "n", "N": "m", "K": "k"}),
    "NRM": ("norm", {"B": "batch", "M": "m", "N": "n"}),
    "CBR": ("conv2d_bn_relu", CONV2D),
    "TBS": ("transpose_batch_matmul_softmax", {"B": "batch", "S": "seq", "H": "heads", "D": "dim"}),
}


def words_of(case):
    op, parameters = OPERATORS[case["op"]]
    return [op] + [f"{ours}={case['params'][theirs]}" for ours, theirs in parameters.items()]


def run(*command, **options):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)


def link(folder, object_file):
    library = folder / "kernel.so"
    done = run("cc", "-shared", "-Wl,-z,defs", "-o", library, object_file, "-lm")
    if done.returncode != 0:
        sys.exit(done.stderr)
    return library


def lower(folder, *options):
    done = run("sh", folder / "lower.sh", *options, timeout=600)
    if done.returncode != 0:
        sys.exit(f"{folder}: {done.stderr[:2000]}")
    return link(folder, folder / "kernel.o")


def lower_dialect(words, options, folder):
    """Our kernel through the LLVM dialect (docs/mlir.md); None: MLIR does not import it."""
    shown = run(options.build / "loopwright", "show", *words, "--threads", "1", "--db", options.db,
                "--stage", "llvm", check=True).stdout
    shown = shown.replace('call void asm sideeffect "", "~{memory}"()',
                          'fence syncscope("singlethread") acq_rel')
    shown = shown.replace("call void @llvm.x86.sse.sfence()", "fence seq_cst")
    text, module, back = (folder / f"dialect{ending}" for ending in (".ll", ".mlir", ".back.ll"))
    text.write_text(shown)
    if run("mlir-translate-19", "--import-llvm", text, "-o", module).returncode != 0:
        return None
    run("mlir-translate-19", "--mlir-to-llvmir", module, "-o", back, check=True)
    run("opt-19", "-O3", "-mcpu=native", back, "-o", folder / "dialect.bc", check=True)
    run("llc-19", "-O3", "-mcpu=native", "-filetype=obj", "-relocation-model=pic",
        "--fp-contract=fast", folder / "dialect.bc", "-o", folder / "dialect.o", check=True)
    (folder / "dialect").mkdir()
    return link(folder / "dialect", folder / "dialect.o")


def packed_bytes(report):
    return ",".join(str(4 * math.prod(packed["shape"])) for packed in report.get("packed", []))


def measure(case, options, timer, folder):
    words = words_of(case)
    command = [options.build / "loopwright", "export", *words, "--threads", "1", "-q",
               "--db", options.db, "--unverified"]
    theirs, ours = folder / "mlir", folder / "ours"
    script = run(*command, "--emit", "mlir", "-o", theirs)
    report = json.loads((theirs / "report.json").read_text())
    if script.returncode != 0:
        return {"name": case["name"], "refused": report.get("refused", script.stderr)}
    kernel = run(*command, "-o", ours)
    if kernel.returncode != 0:
        sys.exit(kernel.stderr)
    facts = json.loads(next(ours.glob("*.json")).read_text())
    libraries = [link(ours, next(ours.glob("*.o")))]
    dialect = lower_dialect(words, options, folder)
    if dialect:
        libraries.append(dialect)
    as_ours = len(libraries)
    libraries.append(lower(theirs))
    if options.plain:
        plain = folder / "plain"
        shutil.copytree(theirs, plain)
        libraries.append(lower(plain, "--unscheduled"))
    workspace = facts["workspace_bytes"] + facts["private_bytes"] + 128
    inputs = sum(a["role"] == "in" for a in facts["arguments"])
    timed = run(timer, inputs, ",".join(str(a["bytes"]) for a in facts["arguments"]), workspace,
                facts["packed_bytes"], packed_bytes(report), report["function"], as_ours,
                *libraries)
    if timed.returncode != 0:
        sys.exit(f"{case['name']}: {timed.stderr}")
    *us, difference = map(float, timed.stdout.split())
    kept = collections.Counter(step["class"] for step in report["steps"])
    lost = sorted({re.match(r"\w+", step["step"])[0] for step in report["steps"]
                   if step["class"] == "lost"})
    return {"name": case["name"], "ours_us": us[0], "dialect_us": us[1] if dialect else None,
            "mlir_us": us[as_ours], "plain_us": us[-1] if options.plain else None,
            "difference": difference,
            "steps": dict(kept), "lost": lost}


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else float("nan")


def mean_ratio(results, name):
    return geometric_mean([r["ours_us"] / r[name] for r in results])


def column(result, name):
    """A time and how much of our speed it is."""
    if result[name] is None:
        return f"{'-':>10} {'':6}"
    return f"{result[name]:10.1f} {result['ours_us'] / result[name]:6.2f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--db", default="")
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    suite = json.loads((ROOT / "bench/workloads/ansor.json").read_text())["workloads"]
    cases = [case for case in suite
             if (case["name"] in options.names if options.names else case["name"].endswith("_b1"))]
    results = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        if not options.db:
            options.db = folder / "none.db"
        timer = folder / "timer"
        run("cc", "-O2", "-o", timer, ROOT / "bench/mlir/timer.c", "-ldl", "-lm", check=True)
        print(f"{'case':10} {'ours us':>10} {'LLVM us':>10} {'ratio':>6} {'MLIR us':>10} "
              f"{'ratio':>6} {'plain us':>10}  lost")
        for case in cases:
            work = folder / case["name"]
            work.mkdir()
            result = measure(case, options, timer, work)
            shutil.rmtree(work)
            results.append(result)
            if "refused" in result:
                print(f"{result['name']:10} refused: {result['refused']}", flush=True)
                continue
            times = [column(result, name) for name in ("dialect_us", "mlir_us", "plain_us")]
            print(f"{result['name']:10} {result['ours_us']:10.1f} {times[0]} {times[1]} "
                  f"{times[2][:10]}  {', '.join(result['lost'])}"
                  + (f"  differs by {result['difference']:.2g}" if result["difference"] > 1e-4
                     else ""), flush=True)
    accepted = [r for r in results if "refused" not in r]
    kept = sum((collections.Counter(r["steps"]) for r in accepted), collections.Counter())
    whole = sum(not r["lost"] for r in accepted)
    imported = [r for r in accepted if r["dialect_us"] is not None]
    print(f"scripts: {len(accepted)} of {len(results)} accepted, {len(results) - len(accepted)} "
          f"refused; {whole} lose nothing; ours / MLIR in geometric mean over the accepted: "
          f"{mean_ratio(accepted, 'mlir_us'):.3f}; steps: {dict(kept)}")
    print(f"LLVM dialect: {len(imported)} of {len(accepted)} imported; ours / theirs in geometric "
          f"mean: {mean_ratio(imported, 'dialect_us'):.3f}")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
