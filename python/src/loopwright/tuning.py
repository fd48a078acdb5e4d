"""Searching for the fastest kernel: always in a child process."""
from __future__ import annotations

import re
import sys
from contextlib import contextmanager
from dataclasses import dataclass

from . import program
from .errors import NotValid
from .ops import Op, lookup_options

TYPE_CHECKING = False                      # errors.py says why
if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator
    from typing import Any


@dataclass(frozen=True)
class Tuned:
    """What a search found. Times are microseconds of a call."""

    op: Op
    best_us: float
    ci_us: tuple[float, float]
    gflops: float
    bound_us: float
    bound_fraction: float
    bound_by: str
    trace: str
    verified: bool
    trials: int
    curve: list[tuple[float, int, float]]  # seconds, trials, best so far
    interrupted: bool
    warnings: list[str]
    document: dict[str, Any]               # all that the program printed

    def _repr_html_(self) -> str:
        from html import escape

        rows = {"best": f"{self.best_us:.2f} µs [{self.ci_us[0]:.2f}, {self.ci_us[1]:.2f}]",
                "speed": f"{self.gflops:.1f} GFLOP/s",
                "bound": f"{self.bound_us:.2f} µs by {self.bound_by}, "
                         f"{100 * self.bound_fraction:.0f} % of it",
                "trials": f"{self.trials}{', interrupted' if self.interrupted else ''}",
                "schedule": self.trace.replace("\n", "; ").strip("; ")}
        cells = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>"
                        for name, text in rows.items())
        table = f"<table><caption>{escape(str(self.op))}</caption>{cells}</table>"
        # The program's own, which escapes what it takes from the op.
        charts = self.document.get("svg", {})
        return f"<div>{table}{charts.get('curve', '')}{charts.get('roofline', '')}</div>"


def tune(op: Op, *, seconds: float | None = None, trials: int | None = None,
         threads: int | None = None, db: str | os.PathLike[str] | None = None,
         target: str | None = None, seed: int | None = None,
         progress: bool | Callable[[str], None] = False) -> Tuned:
    """Searches, measures, verifies, and stores all of it in `db` ($LOOPWRIGHT_DB, else
    loopwright.db). Whichever of `seconds` and `trials` is over first ends it.

    Ctrl-C ends it too: what was measured is stored, and the best so far is returned with
    `interrupted` set. `progress`: a bar of tqdm's, or a line on stderr where that is not installed; or
    a function, which is given a line of text for each trial. NotValid: nothing that was measured
    passed its check.
    """
    options = ["--svg", *lookup_options(db, None, threads, target),
               *program.flags({"--seconds": seconds, "--trials": trials, "--seed": seed})]
    with _listener(progress, trials) as on_line:
        if on_line is not None:
            options.append("-v")           # a line for each trial, not one in three seconds
        document = program.run(["tune", *op.options, *options], on_line, stoppable=True,
                               also=(NotValid.code,))
    best = document.get("best")
    if best is None:
        if document.get("interrupted"):
            raise KeyboardInterrupt
        warnings = "; ".join(document.get("warnings", []))
        raise NotValid(f"{op}: {warnings or 'nothing was measured'}")
    return Tuned(op=op, best_us=best["time_us"], ci_us=tuple(best["ci_us"]), gflops=best["gflops"],
                 bound_us=best["bound_us"], bound_fraction=best["bound_fraction"],
                 bound_by=best["bound_by"], trace=best["trace"], verified=best["verified"],
                 trials=document["trials"],
                 curve=[(wall, count, us) for wall, count, us in document["curve"]],
                 interrupted=document["interrupted"], warnings=document["warnings"],
                 document=document)


@contextmanager
def _listener(progress: bool | Callable[[str], None],
              trials: int | None) -> Iterator[Callable[[str], None] | None]:
    if not isinstance(progress, bool):
        yield progress
        return
    if not progress:
        yield None
        return
    try:
        from tqdm.auto import tqdm
    except ImportError:
        yield _on_stderr
        sys.stderr.write("\n")
        return
    with tqdm(total=trials, unit=" trials") as bar:
        def show(line: str) -> None:
            stored = _STORED.match(line)
            if stored is not None:
                bar.update()
                bar.set_postfix_str(f"{stored[2]} us")
        yield show


# What the program says of a trial: its number, its verdict and its time.
_STORED = re.compile(r"stored (\d+) +\w+ +([\d.]+) us")


def _on_stderr(line: str) -> None:
    stored = _STORED.match(line)
    if stored is not None:
        sys.stderr.write(f"\r{stored[1]} trials, the last {stored[2]} us\x1b[K")
        sys.stderr.flush()
