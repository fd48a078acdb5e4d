"""Look-ups and studies: a service, a snapshot or a database, asked for schedules or told to tune."""
from __future__ import annotations

import os
from dataclasses import dataclass

from . import program
from .errors import BadRequest
from .ops import Op, lookup_options
from .requests import suite_of

TYPE_CHECKING = False                      # errors.py says why
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from .studies import Study

    File = str | os.PathLike[str]


@dataclass(frozen=True)
class Answer:
    """`outcome`: exact, loose, nearest-shape, nearest-target, default. `origin`: server, cache,
    snapshot, database; "" where nothing was on record. `time_us`: of the record, None where there is
    none."""

    op: Op
    outcome: str
    trace: str
    time_us: float | None
    origin: str
    document: dict[str, Any]


class Client:
    """Asks `server` ("host:7070"; TLS files where that is another machine), a `snapshot`, or both; or
    a database, alone.

    With a snapshot, a cache or a deadline a server is waited for `deadline_ms` (50) at most, and one
    that is away is no error: what the cache and the snapshot have is the answer, else the default.
    `cache`: True, or a folder, keeps what the server says, for an hour without asking again.
    Without any of them a server that is away is EnvironmentFailed. Thread-safe.
    """

    def __init__(self, server: str | None = None, *, snapshot: File | None = None,
                 db: File | None = None, cache: bool | File = False,
                 deadline_ms: int | None = None, tls_ca: str | None = None,
                 tls_cert: str | None = None, tls_key: str | None = None, insecure: bool = False):
        if (db is not None) + (server is not None or snapshot is not None) != 1:
            raise BadRequest("a client asks a server, a snapshot or both; or db= alone")
        if server is None and (cache is not False or deadline_ms is not None):
            raise BadRequest("cache= and deadline_ms= are of a server's answers: name the server")
        if server is None and (insecure or (tls_ca, tls_cert, tls_key) != (None,) * 3):
            raise BadRequest("tls_ca=, tls_cert=, tls_key= and insecure= are for the way to a server: "
                             "name it")
        if server == "":
            raise BadRequest("the server's address is empty: give HOST:PORT")
        self._server, self._snapshot = server, snapshot
        self._security = program.flags({"--tls-ca": tls_ca, "--tls-cert": tls_cert,
                                        "--tls-key": tls_key})
        if insecure:
            self._security.append("--insecure")
        self._places = lookup_options(db, snapshot, None, None)
        if server is not None:
            self._places += [*self._service, *_kept(cache),
                             *program.flags({"--deadline-ms": deadline_ms})]

    def lookup(self, op: Op, *, threads: int | None = None, target: str | None = None,
               frozen: bool = False) -> Answer:
        """The best that is known. `frozen`: NotTuned unless it was tuned for exactly this."""
        return self.lookup_all([op], threads=threads, target=target, frozen=frozen)[0]

    def lookup_all(self, ops: Iterable[Op], *, threads: int | None = None,
                   target: str | None = None, frozen: bool = False) -> list[Answer]:
        """Of each op, in one call. `frozen`: NotTuned if any is not, with a request for those."""
        ops = list(ops)
        distinct = list(dict.fromkeys(ops))
        if not distinct:
            return []
        options = [*self._places, *lookup_options(None, None, threads, target)]
        if frozen:
            options.append("--frozen")
        elif self._server is not None:
            options += ["--worst", "default"]
        command = "best" if self._server is None else "lookup"
        document = program.run([command, "--suite", "/dev/stdin", *options], text=suite_of(distinct))
        found = {op: self._answer(op, result)
                 for op, result in zip(distinct, document["results"], strict=True)}
        return [found[op] for op in ops]

    def submit(self, ops: Op | Iterable[Op], *, trials: int | None = None,
               seconds: float | None = None, threads: int | None = None, target: str = "any",
               priority: int = 0, seed: int = 1, cold: bool = False,
               labels: Mapping[str, str] | None = None, request_id: str | None = None) -> Study:
        """Asks the service to tune the ops, as one study. `trials`, `seconds`: for each on average.
        `target`: "any", a target's name, or "devices/NAME". The same `request_id` makes no second
        study."""
        from .studies import submit

        ops = [ops] if isinstance(ops, Op) else list(dict.fromkeys(ops))
        options = [*lookup_options(None, None, threads, target),
                   *program.flags({"--trials": trials, "--seconds": seconds, "--priority": priority,
                                   "--seed": seed, "--request-id": request_id})]
        for name, label in (labels or {}).items():
            options += ["--label", f"{name}={label}"]
        if cold:
            options.append("--cold")
        return submit(self._service, ops, options)

    def study(self, name: str) -> Study:
        """The one of this name, "studies/ID", as it is now."""
        from .studies import study_of

        return study_of(self._service, program.run(["studies", name, *self._service]))

    def studies(self, filter: str = "", *, most: int = 50) -> list[Study]:
        """The newest first; `filter` as in 'state = RUNNING AND client = "ci"'."""
        from .studies import study_of

        document = program.run(["studies", "--filter", filter, "--most", str(most), *self._service])
        return [study_of(self._service, one) for one in document["studies"]]

    @property
    def _service(self) -> list[str]:
        if self._server is None:
            raise BadRequest("studies are a service's: lw.Client(\"host:7070\")")
        return ["--server", self._server, *self._security]

    def _answer(self, op: Op, document: dict[str, Any]) -> Answer:
        """Of what `best` or `lookup` says."""
        record = document.get("record") or document.get("measurement") or {}
        outcome = document["outcome"].removeprefix("LOOKUP_OUTCOME_").lower().replace("_", "-")
        place = "server" if self._server else "snapshot" if self._snapshot else "database"
        origin = document.get("origin", "" if outcome == "default" else place)
        return Answer(op, outcome, document["trace"], record.get("time_us") or None, origin, document)


def _kept(cache: bool | File) -> list[str]:
    if cache is False:
        return []
    if cache is True:
        from .cache import folder

        cache = folder("lookups")
    return ["--cache-folder", os.fspath(cache)]
