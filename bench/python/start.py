#!/usr/bin/env python3
"""What using the package costs at first, each time in a new process: milliseconds, medians and middle
halves of 21 rounds in which all take turns.

    python bench/python/start.py            # in an environment with the wheel and its program
"""
import os
import statistics
import subprocess
import sys
import tempfile
import time

import loopwright as lw
from loopwright.program import executable

ROUNDS = 21
WORDS = ["matmul", "M=64", "N=64", "K=64"]
SEARCH = ["--threads", "1", "--trials", "0", "--seed", "1"]   # the untuned one is measured
OP = 'op = lw.op("matmul", M=64, N=64, K=64); '
CLOCK = "import time; from sys import stdout; start = time.perf_counter(); "
STOP = "; stdout.write(str(time.perf_counter() - start))"


def wall(command, **environment):
    begin = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, **environment})
    return (time.perf_counter() - begin) * 1e3


def inside(before, code):
    """Of `code` alone, as its process times it."""
    command = [sys.executable, "-c", "import loopwright as lw; " + before + CLOCK + code + STOP]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout) * 1e3


def python(code):
    return wall([sys.executable, "-c", code])


def program(*arguments):
    return wall([executable(), *arguments])


def ways(db, bundle, folder):
    """Name, what takes so long, and what is taken off that."""
    load = f"k = lw.load({bundle!r})['relu']"
    ask = f"lw.Client(db={db!r}).lookup(op, threads=1)"
    places = iter(range(10**6))

    def new_db():                          # a search goes on where its database has one
        return os.path.join(folder, f"{next(places)}.db")
    tune = "import loopwright as lw; " + OP + "lw.tune(op, threads=1, trials=0, seed=1, db={!r})"
    return [
        ("python -c pass", lambda: python("pass"), None),
        ("import loopwright, beyond `python -c pass`",
         lambda: python("import loopwright"), lambda: python("pass")),
        ("lw.load(bundle)[name], the first", lambda: inside("", load), None),
        ("... and its first call, without NumPy",
         lambda: inside("a = memoryview(bytearray(400)).cast('f'); ", load + "; k(a)"), None),
        ("lw.Client(db=).lookup(lw.op(...)), the first", lambda: inside("", OP + ask), None),
        ("... beyond `loopwright best` alone", lambda: inside("", OP + ask),
         lambda: program("best", *WORDS, "--threads", "1", "--db", db, "--json")),
        ("python that runs lw.tune(op), beyond `loopwright tune` alone",
         lambda: python(tune.format(new_db())),
         lambda: program("tune", *WORDS, *SEARCH, "--db", new_db(), "--json")),
    ]


def main():
    with tempfile.TemporaryDirectory() as folder:
        db, bundle = os.path.join(folder, "lw.db"), os.path.join(folder, "bundle")
        lw.tune(lw.op("matmul", M=64, N=64, K=64), threads=1, trials=8, seconds=20, db=db)
        lw.op("relu", N=100).kernel(db=db, threads=1).export(bundle)
        measured = [(name, what, less, []) for name, what, less in ways(db, bundle, folder)]
        for _ in range(ROUNDS):
            for _, what, less, times in measured:
                times.append(what() - (less() if less else 0))
        for name, _, _, times in measured:
            low, middle, high = statistics.quantiles(times, n=4)
            print(f"{middle:8.1f} ms  [{low:.1f}, {high:.1f}]  {name}")


if __name__ == "__main__":
    main()
