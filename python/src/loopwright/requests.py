"""What was looked up in vain: tuning requests."""
from __future__ import annotations

import json
import threading
from collections import Counter

from .files import sha256_hex
from .ops import Op

TYPE_CHECKING = False                      # errors.py says why
if TYPE_CHECKING:
    import os
    from collections.abc import Iterable
    from types import TracebackType
    from typing import Any

_lock = threading.Lock()
_open: list[Capture] = []


class Capture:
    """Collects misses while it is entered, each op once; the file is written when it is left, also
    by an exception."""

    def __init__(self, path: str | os.PathLike[str]):
        from pathlib import Path

        self.path = Path(path)
        self.ops: list[Op] = []

    def __enter__(self) -> Capture:
        with _lock:
            _open.append(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        with _lock:
            _open.remove(self)
        self.write()

    def write(self) -> None:
        new = self.path.with_name(self.path.name + ".new")
        entries = [entry_of(op) for op in self.ops]
        _name_apart(entries)
        new.write_text(json.dumps({"workloads": entries}, indent=2) + "\n")
        new.replace(self.path)


def capture(path: str | os.PathLike[str]) -> Capture:
    """`with lw.capture("request.json"): run()` writes down what was not tuned, with its program, for
    `loopwright tune --suite` and `lock`."""
    return Capture(path)


def note_miss(op: Op) -> None:
    with _lock:
        for one in _open:
            if op not in one.ops:
                one.ops.append(op)


def suite_of(ops: Iterable[Op]) -> str:
    """The ops, no two equal, as the program's commands take a --suite."""
    entries = [{**_decided(op), "name": str(op), "words": list(op.words)} for op in ops]
    _name_apart(entries)
    return json.dumps({"workloads": entries})


def _name_apart(entries: list[dict[str, Any]]) -> None:
    """Names are those of ops, and several texts may call theirs the same; `lock` wants each once."""
    often = Counter(entry["name"] for entry in entries)
    for entry in entries:
        if often[entry["name"]] > 1:
            digest = sha256_hex(json.dumps(entry).encode())
            entry["name"] += f" {digest[:8]}"


def entry_of(op: Op) -> dict[str, Any]:
    return {"name": str(op), "program": op.text, **_decided(op)}


def _decided(op: Op) -> dict[str, Any]:
    decided: dict[str, Any] = {}
    if op.const is not None:
        decided["const"] = list(op.const)
    if op.allow:
        decided["allow"] = list(op.allow)
    return decided
