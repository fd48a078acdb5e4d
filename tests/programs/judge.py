"""Asks the program `loopwright` to tune and to run a drawn program, and judges what comes back."""
import json
import os
import subprocess
import time
from dataclasses import dataclass, field

import numpy as np

import values
from inputs import loaded, stored

OP = "drawn"
# A right kernel cannot be faster than its bound; beyond this the bound is wrong.
MOST_OF_BOUND = 1.05
INVALID, REFUSED, NOTHING_FOUND = 3, 1, 2


@dataclass
class Settings:
    loopwright: str
    threads: int = 1
    target: str = "host"
    trials: int = 4
    seconds: float = 3
    limit: float = 120                     # of a command, in seconds; beyond it hangs
    bounds: bool = False                   # whether times can be judged here
    interpreted: bool = False              # only `run --reference`


@dataclass
class Verdict:
    """kind: "" where nothing is wrong, else one of KINDS."""
    kind: str = ""
    message: str = ""
    output: str = ""                       # the tensor that is wrong
    seconds: float = 0
    facts: dict = field(default_factory=dict)


# The last one is ours.
KINDS = ("wrong result", "crash", "hang", "none valid", "no schedule", "empty space",
         "bound exceeded", "refused", "broken check")


class Failure(Exception):
    def __init__(self, kind, message, output=""):
        super().__init__(message)
        self.verdict = Verdict(kind, message, output)


def save(draft, folder):
    """The program and its inputs as files."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, f"{OP}.te"), "w") as file:
        file.write(draft.program.text(OP))
    for tensor in draft.program.inputs():
        data = stored(tensor.type, draft.values[tensor.name].lo)
        np.save(os.path.join(folder, tensor.name + ".npy"), data)


class Judge:
    def __init__(self, settings, draft, folder):
        self.settings, self.draft, self.folder = settings, draft, folder
        self.facts = {}

    def words(self, command, options):
        return [command, f"{OP}.te:{OP}", *self.draft.program.words(),
                "--target", self.settings.target, "--threads", str(self.settings.threads), *options]

    def command(self, words, what):
        """Standard output; or raises what went wrong."""
        try:
            done = subprocess.run([self.settings.loopwright, *words], cwd=self.folder,
                                  capture_output=True, text=True, timeout=self.settings.limit)
        except subprocess.TimeoutExpired:
            raise Failure("hang", f"{what}: no end within {self.settings.limit} s") from None
        if done.returncode == 0:
            return done.stdout
        said = done.stderr.strip() or done.stdout.strip()
        message = f"{what}: exit {done.returncode}: {said[-3000:]}"
        if "no schedule" in done.stderr:
            raise Failure("no schedule", message)
        kind = {INVALID: "none valid", REFUSED: "refused", NOTHING_FOUND: "no schedule"}
        raise Failure(kind.get(done.returncode, "crash"), message)

    def tune(self, trials, database):
        options = ["--trials", str(trials), "--seconds", str(self.settings.seconds), "--json", "-q",
                   "--db", database]
        what = f"tune --trials {trials}"
        answer = json.loads(self.command(self.words("tune", options), what))
        best = answer.get("best")
        if not best or not best.get("verified"):
            raise Failure("none valid", f"{what}: no verified best")
        if not (answer.get("zero_trial") or {}).get("verified"):
            raise Failure("none valid", f"{what}: the untuned schedule is not verified")
        self.facts["failed"] = self.facts.get("failed", 0) + answer.get("failed", 0)
        if self.settings.bounds and best.get("bound_fraction", 0) > MOST_OF_BOUND:
            raise Failure("bound exceeded", f"{what}: {best['bound_fraction']:.2f} of the bound, "
                          f"set by {best.get('bound_by')}; {best['time_us']:.3g} us")

    def run(self, what, options):
        """Compares every output."""
        program = self.draft.program
        words = ["--json", "-q", *options]
        for t in program.inputs():
            words += ["-i", f"{t.name}={t.name}.npy"]
        for t in program.outputs():
            file = os.path.join(self.folder, f"out_{t.name}.npy")
            if os.path.exists(file):
                os.remove(file)
            words += ["-o", f"{t.name}=out_{t.name}.npy"]
        self.command(self.words("run", words), what)
        for t in program.outputs():
            got = np.load(os.path.join(self.folder, f"out_{t.name}.npy"))
            complaint = compare(self.draft.values[t.name], loaded(t.type, got))
            if complaint:
                raise Failure("wrong result", f"{what}: {t.name}: {complaint}", t.name)

    def space(self):
        answer = json.loads(self.command(self.words("space", ["--json", "-q"]), "space"))
        if not answer.get("sketches"):
            raise Failure("empty space", "space: no sketch")

    def judge(self):
        start = time.monotonic()
        try:
            save(self.draft, self.folder)
            self.run("run --reference", ["--reference", "--db", "none.db"])
            if not self.settings.interpreted:
                self.compiled()
            verdict = Verdict()
        except Failure as failure:
            verdict = failure.verdict
        verdict.seconds = time.monotonic() - start
        verdict.facts = self.facts
        return verdict

    def compiled(self):
        self.run("run of the untuned schedule", ["--db", "none.db"])
        self.tune(self.settings.trials, "tuned.db")
        self.run("run after tune", ["--db", "tuned.db"])
        self.space()


def compare(value, got):
    """"" or what is wrong with an output."""
    if got.shape != value.lo.shape:
        return f"shape {got.shape}, not {value.lo.shape}"
    ok = values.accepts(value, got)
    if ok.all():
        return ""
    at = tuple(np.argwhere(~ok)[0])
    return (f"{np.sum(~ok)} of {ok.size} elements are wrong; at {list(map(int, at))} {got[at]}, "
            f"admissible [{value.lo[at]}, {value.hi[at]}]")
