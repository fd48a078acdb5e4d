"""Look-ups: a service, a snapshot or a database, asked for a schedule."""
from __future__ import annotations

import os
from dataclasses import dataclass

from . import program
from .errors import BadRequest
from .ops import Op, lookup_options

TYPE_CHECKING = False                      # errors.py says why
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any


@dataclass(frozen=True)
class Answer:
    """`outcome`: exact, loose, nearest-shape, nearest-target, default. `time_us`: of the record, None
    where there is none."""

    op: Op
    outcome: str
    trace: str
    time_us: float | None
    document: dict[str, Any]


class Client:
    """One of `server` ("host:7070"; TLS files where that is another machine), `snapshot` and `db`."""

    def __init__(self, server: str | None = None, *, snapshot: str | os.PathLike[str] | None = None,
                 db: str | os.PathLike[str] | None = None, tls_ca: str | None = None,
                 tls_cert: str | None = None, tls_key: str | None = None, insecure: bool = False):
        if sum(place is not None for place in (server, snapshot, db)) != 1:
            raise BadRequest("a client asks one of server, snapshot= and db=")
        self._server, self._snapshot, self._db = server, snapshot, db
        self._security = [word for flag, value in (("--tls-ca", tls_ca), ("--tls-cert", tls_cert),
                                                   ("--tls-key", tls_key)) if value is not None
                          for word in (flag, value)]
        if insecure:
            self._security.append("--insecure")

    def lookup(self, op: Op, *, threads: int | None = None, target: str | None = None,
               frozen: bool = False) -> Answer:
        """The best that is known. `frozen`: NotTuned unless it was tuned for exactly this."""
        options = [*op.options, *lookup_options(self._db, None, threads, target)]
        if frozen:
            options.append("--frozen")
        if self._server is not None:
            options += ["--server", self._server, *self._security]
            if not frozen:
                options += ["--worst", "default"]
            return _answer(op, program.run(["lookup", *options]))
        if self._snapshot is not None:
            options += ["--snapshot", os.fspath(self._snapshot)]
        return _answer(op, program.run(["best", *options]))

    def lookup_all(self, ops: Iterable[Op], *, threads: int | None = None,
                   target: str | None = None) -> list[Answer]:
        return [self.lookup(op, threads=threads, target=target) for op in ops]


def _answer(op: Op, document: dict[str, Any]) -> Answer:
    """Of what `best` or `lookup` says."""
    if "results" in document:
        document = document["results"][0]
    record = document.get("record", document.get("measurement", document))
    time_us = record.get("time_us") if isinstance(record, dict) else None
    outcome = document["outcome"].removeprefix("LOOKUP_OUTCOME_").lower().replace("_", "-")
    return Answer(op, outcome, document["trace"], time_us or None, document)
