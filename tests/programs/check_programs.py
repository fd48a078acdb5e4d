#!/usr/bin/env python3
"""Draws random programs of the tensor language, tunes and runs them, and compares every output with
an evaluator that shares nothing with Loopwright (generate.py, values.py).

Prints a summary by kind of failure; exits 1 where there is one. The same --seed draws the same
programs.
"""
import argparse
import concurrent.futures
import json
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import asdict

from generate import MOTIFS, generate
from judge import KINDS, Judge, Settings, Verdict, save
from minimize import minimize


def options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loopwright", default="build/loopwright", help="the program")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1, help="of the first program; then the next")
    parser.add_argument("--only", help="motifs, A,B: " + ", ".join(m.__name__ for m in MOTIFS))
    parser.add_argument("--threads", type=int, default=1, help="of the kernels")
    parser.add_argument("--target", default="host")
    parser.add_argument("--const", type=float, default=0.3, help="share of `const` inputs")
    parser.add_argument("--trials", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=3, help="of a search")
    parser.add_argument("--limit", type=float, default=120, help="seconds; a longer command hangs")
    parser.add_argument("--bounds", action="store_true",
                        help="a kernel beyond 105 %% of its bound fails; needs a quiet machine")
    parser.add_argument("--reference", action="store_true", help="only the interpreter's answers")
    parser.add_argument("--jobs", type=int, default=1, help="programs at a time")
    parser.add_argument("--keep", metavar="DIR", help="failing programs, as drawn and minimized")
    parser.add_argument("--no-minimize", action="store_true")
    parser.add_argument("--json", metavar="FILE", help="the results")
    parser.add_argument("--budget", type=float, help="seconds, after which no program is begun")
    return parser.parse_args()


def judge_in(settings, draft):
    folder = tempfile.mkdtemp(prefix="loopwright_program_")
    try:
        return Judge(settings, draft, folder).judge()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def step(verdict):
    """The command that failed."""
    return verdict.message.split(":")[0]


def keep(settings, seed, draft, verdict, folder, small):
    """folder/SEED: the program as drawn; /SEED/minimized: a smaller one."""
    folder = os.path.join(folder, str(seed))
    save(draft, folder)

    def fails(candidate):
        again = judge_in(settings, candidate)
        return again.kind == verdict.kind and step(again) == step(verdict)

    lines = [f"seed {seed}, {', '.join(draft.motifs)}: {verdict.kind}", verdict.message]
    # A hang takes as long each time; what is refused as drawn may be mistaken when cut.
    if small and verdict.kind not in ("hang", "refused", "broken check"):
        draft = minimize(draft, fails)
        save(draft, os.path.join(folder, "minimized"))
        last = judge_in(settings, draft)
        lines.append("minimized: " + last.message)
    lines.append("words: " + " ".join(draft.program.words()))
    text = "\n".join(lines + [draft.program.text()])
    with open(os.path.join(folder, "report.txt"), "w") as file:
        file.write(text)
    return text


def main():
    args = options()
    settings = Settings(os.path.abspath(args.loopwright), args.threads, args.target, args.trials,
                        args.seconds, args.limit, args.bounds, args.reference)
    if not os.access(settings.loopwright, os.X_OK):
        sys.exit(f"{args.loopwright}: no such program; say which with --loopwright")
    start = time.monotonic()
    only = args.only and set(args.only.split(","))
    unknown = (only or set()) - {m.__name__ for m in MOTIFS}
    if unknown:
        sys.exit(f"--only: no such motif: {', '.join(sorted(unknown))}")

    def one(seed):
        if args.budget and time.monotonic() - start > args.budget:
            return None
        draft = generate(seed, args.const, only)
        try:
            verdict = judge_in(settings, draft)
        except Exception:                  # of 10,000 programs the others are still worth checking
            verdict = Verdict("broken check", traceback.format_exc())
        if verdict.kind:
            text = f"seed {seed}: {verdict.kind}: {verdict.message}"
            if args.keep:
                text = keep(settings, seed, draft, verdict, args.keep, not args.no_minimize)
            else:
                text += "\n" + " ".join(draft.program.words()) + "\n" + draft.program.text()
            print(text, flush=True)
        return {"seed": seed, "motifs": draft.motifs, "edge": draft.edge, **asdict(verdict)}

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        results = [r for r in pool.map(one, range(args.seed, args.seed + args.count)) if r]
    wall = time.monotonic() - start
    if args.json:
        with open(args.json, "w") as file:
            json.dump({"wall_s": wall, "settings": asdict(settings), "programs": results}, file)
    sys.exit(1 if summarize(results, wall) else 0)


def summarize(results, wall):
    """Prints; the number of failures."""
    kinds = Counter(r["kind"] for r in results)
    motifs = Counter(m for r in results for m in r["motifs"])
    failing = Counter(m for r in results if r["kind"] for m in r["motifs"])
    print(f"\n{len(results)} programs in {wall:.0f} s, {len(results) / max(wall, 1e-9):.2f} a second; "
          f"{sum(r['edge'] for r in results)} with edge inputs")
    for kind in KINDS:
        seeds = [r["seed"] for r in results if r["kind"] == kind]
        print(f"{kind:16} {kinds[kind]:5}  " + " ".join(map(str, seeds[:12])))
    candidates = sum(r["facts"].get("failed", 0) for r in results)
    print(f"candidates that failed in a search: {candidates}")
    print("motifs, failing of drawn: " + ", ".join(f"{m} {failing[m]}/{n}" for m, n in
                                                   sorted(motifs.items())))
    return sum(n for kind, n in kinds.items() if kind)


if __name__ == "__main__":
    main()
