"""Studies: what a service was asked to tune, and how far it is."""
from __future__ import annotations

import json
from dataclasses import dataclass

from . import program
from .errors import BadRequest, NotValid
from .ops import Op
from .requests import suite_of

TYPE_CHECKING = False                      # errors.py says why
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


@dataclass(frozen=True)
class StudyWorkload:
    """Of a study. Times are microseconds, None where there is none yet; `zero_us`: of the untuned."""

    name: str
    trials: int
    failed: int
    best_us: float | None
    zero_us: float | None
    done: bool
    note: str


@dataclass(frozen=True)
class StudyEvent:
    """`kind`: created, started, batch, improved, workload-done, ended, job-lost, waiting,
    contradicted. What it is not about is "" or None."""

    kind: str
    sequence: int
    elapsed_s: float
    workload: str
    device: str
    best_us: float | None
    trials: int
    failed: int
    detail: str


@dataclass(frozen=True)
class Study:
    """As it was when the service said so. `state`: queued, running, succeeded, failed, cancelled.
    `refused`: of what was submitted, by name, why it is no part of it."""

    name: str
    state: str
    trials: int
    trials_wanted: int
    failed: int
    workloads: tuple[StudyWorkload, ...]
    waiting: str
    error: str
    refused: dict[str, str]
    document: dict[str, Any]
    _service: list[str]

    @property
    def ended(self) -> bool:
        return self.state in ("succeeded", "failed", "cancelled")

    def now(self) -> Study:
        """As it is now."""
        return study_of(self._service, program.run(["studies", self.name, *self._service]),
                        self.refused)

    def watch(self, on_event: Callable[[StudyEvent], None] | None = None, *, after: int = 0,
              patience: float | None = None) -> Study:
        """Waits for its end. `on_event` is given each event from number `after` + 1 on. A service
        that is away is waited for, for `patience` seconds where that is given, then
        EnvironmentFailed. KeyboardInterrupt ends the watching, not the study."""
        options = [*self._service, *program.flags({"--after": after, "--patience": patience})]
        if on_event is not None:
            options.append("-v")
        document = program.run(["watch", self.name, *options], on_event and _hear(on_event),
                               also=(NotValid.code,))           # of one that failed
        return study_of(self._service, document, self.refused)

    def cancel(self) -> Study:
        """Ends it; what was measured stays."""
        return study_of(self._service, program.run(["cancel", self.name, *self._service]),
                        self.refused)


def submit(service: list[str], ops: list[Op], options: list[str]) -> Study:
    made = program.run(["submit", "--suite", "/dev/stdin", *options, *service], text=suite_of(ops),
                       also=(BadRequest.code,))            # a part of it was refused
    refused = {one["name"]: one["why"] for one in made["refused"]}
    return study_of(service, program.run(["studies", made["study"], *service]), refused)


def study_of(service: list[str], document: dict[str, Any],
             refused: dict[str, str] | None = None) -> Study:
    progress = document["progress"]
    workloads = tuple(StudyWorkload(one["name"], one["trials"], one["failed"],
                                    one["best_us"] or None, one["zero_us"] or None, one["done"],
                                    one["note"]) for one in progress["workloads"])
    return Study(document["name"], progress["state"].removeprefix("STUDY_STATE_").lower(),
                 progress["trials"], progress["trials_wanted"], progress["failed"], workloads,
                 progress["waiting"], document["error"], refused or {}, document, service)


def _hear(on_event: Callable[[StudyEvent], None]) -> Callable[[str], None]:
    def hear(line: str) -> None:
        if not line.startswith("{"):
            return                         # a note: the server is away
        said = json.loads(line)
        kind = said["kind"].removeprefix("KIND_").lower().replace("_", "-")
        on_event(StudyEvent(kind, int(said["sequence"]), said["elapsed_s"], said["workload"],
                            said["device"], said["best_us"] or None, said["trials"],
                            said["failed"], said["detail"]))
    return hear
