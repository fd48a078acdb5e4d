#!/usr/bin/env python3
"""Times the peers' kernels on a GPU, row by row of the table that ours will be held against.

    bench/gpu/peers.py LOG.jsonl [--seconds 360] [--rounds 7] [--only GROUP ...]

Appends one line per row, regime and contender to the log; what the log holds is not timed again, so
a second call goes on where the first was cut. harness.py says how a time is taken, rows.py what the
rows are, table.py prints the log.
"""
import argparse
import collections
import json
import os
import subprocess
import sys
import time

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", str(min(16, os.cpu_count() or 1)))

import torch                               # noqa: E402  (after the environment is set)

import cublaslt                            # noqa: E402
import harness                             # noqa: E402
import ours                                # noqa: E402
import rows as table                       # noqa: E402

# Dense data-sheet peaks in TFLOP/s and TB/s of the SXM parts.
TENSOR = {"bf16": 989.4, "f16": 989.4, "tf32": 494.7, "f32": 66.9, "int8": 1978.9}
PEAKS = {"H100": {**TENSOR, "dram": 3.35}, "H200": {**TENSOR, "dram": 4.8}}


def environment():
    card = torch.cuda.get_device_properties(0)
    query = ("name,driver_version,clocks.max.sm,clocks.max.mem,power.limit,ecc.mode.current,"
             "mig.mode.current")
    smi = subprocess.run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"],
                         capture_output=True, text=True, check=False).stdout.strip()
    import triton
    return {"card": card.name, "multiprocessors": card.multi_processor_count,
            "l2_bytes": card.L2_cache_size, "memory_bytes": card.total_memory,
            "nvidia_smi": dict(zip(query.split(","), smi.split(", "))), "torch": torch.__version__,
            "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version(),
            "cublaslt": cublaslt.shared_library().version(), "triton": triton.__version__,
            "peaks": next((p for name, p in PEAKS.items() if name in card.name), {})}


def sustained(watch):
    """8192^3 in bf16 without a pause, on random data and on zeros: what power leaves of the peak."""
    results = {}
    for name, make in (("random", torch.randn), ("zeros", torch.zeros)):
        a, b = (make(8192, 8192, device="cuda").bfloat16() for _ in range(2))
        c = torch.mm(a, b)
        torch.cuda.synchronize()
        time.sleep(0.5)
        slices, begin = [], time.monotonic()
        while time.monotonic() - begin < 3:
            from_s = time.monotonic()
            seconds = harness.elapsed(lambda: [torch.mm(a, b, out=c) for _ in range(60)]) / 60
            slices.append((from_s, seconds))
        late = [s for at, s in slices if at - begin > 1]
        middle, low, high = harness.quartiles(late)
        flop = 2 * 8192 ** 3
        results[name] = {"tflops": flop / middle / 1e12, "tflops_first": flop / slices[0][1] / 1e12,
                         "us": middle * 1e6, "q1": low * 1e6, "q3": high * 1e6,
                         **watch.between(begin + 1, time.monotonic())}
    return results


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("log")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", nargs="*", help="groups of rows")
    parser.add_argument("--first", type=int, help="so many rows of a group at most, in a hurry: a look")
    parser.add_argument("--ours", help="exports of bench/gpu/run, contenders too")
    args = parser.parse_args()
    begin = time.monotonic()
    done = set()
    if os.path.exists(args.log):
        with open(args.log, encoding="utf-8") as file:
            done = {(r["row"], r["regime"]) for r in map(json.loads, file) if "row" in r}
    log = open(args.log, "a", encoding="utf-8", buffering=1)
    torch.backends.cudnn.benchmark = True
    torch._dynamo.config.recompile_limit = 64
    watch = harness.Watch()
    facts = environment()
    if not done:
        log.write(json.dumps({"environment": facts}) + "\n")
    l2, peaks = facts["l2_bytes"], facts["peaks"]
    if not args.only and not args.first and ("sustained", "warm") not in done:
        log.write(json.dumps({"row": "sustained", "regime": "warm", "started": True}) + "\n")
        log.write(json.dumps({"sustained": sustained(watch)}) + "\n")
    left, taken = 0, collections.Counter()
    for row in table.all_rows():
        key = f"{row.group}: {row.name}"
        if args.only and row.group not in args.only:
            continue
        taken[row.group] += 1
        if args.first:
            if taken[row.group] > args.first:
                continue
            row.sample_ms = 1
        for regime in row.regimes:
            if (key, regime) in done:
                continue
            if time.monotonic() - begin > args.seconds:
                left += 1
                continue
            from_s = time.monotonic()
            head = {"row": key, "group": row.group, "regime": regime}
            log.write(json.dumps({**head, "started": True}) + "\n")   # one that kills us is not tried again
            if args.ours:
                row.peers.update(ours.contenders(row, args.ours))
            torch._dynamo.reset()
            results = harness.time_row(row, regime, watch, args.rounds, l2)
            for peer, result in results.items():
                if "us" in result:
                    seconds = result["us"] * 1e-6
                    if row.peak and row.peak in peaks and peer != "copy":
                        result.update(tflops=row.flop / seconds / 1e12,
                                      of_peak=row.flop / seconds / 1e12 / peaks[row.peak])
                    if row.bytes:
                        result["tb_s"] = row.bytes / seconds / 1e12
                    if "us" in results.get("copy", {}):
                        result["of_copy"] = results["copy"]["us"] / result["us"]
                result = {k: float(f"{v:.5g}") if isinstance(v, float) else v for k, v in result.items()}
                log.write(json.dumps({**head, "peer": peer, **result}) + "\n")
            brief = ", ".join(f"{p} {r['us']:.1f}" if "us" in r else f"{p} failed: {r['failed'][:110]}"
                              for p, r in results.items())
            now = time.monotonic()
            print(f"{now - begin:6.1f} s  {now - from_s:5.1f}  {key}  {regime}: {brief}", flush=True)
    print(f"{left} rows left" if left else "all rows timed")
    return 3 if left else 0


if __name__ == "__main__":
    sys.exit(main())
