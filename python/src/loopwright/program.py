"""The program `loopwright` as a child process: found, run, its JSON and its errors.

Always started by exec and never by a fork of this process, which may have threads.
"""
from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .errors import EnvironmentFailed, NotTuned, error_of

_log = logging.getLogger("loopwright")
_INTERRUPTED = 4                           # its exit code: stopped, and what it had is kept


def executable() -> str:
    """$LOOPWRIGHT_EXECUTABLE, else what the wheel carries, else the first on PATH."""
    named = os.environ.get("LOOPWRIGHT_EXECUTABLE")
    if named:
        if not os.access(named, os.X_OK):
            raise EnvironmentFailed(f"LOOPWRIGHT_EXECUTABLE is {named}, which is no program")
        return named
    carried = Path(__file__).parent / "bin" / "loopwright"
    if carried.is_file():
        return str(carried)
    found = shutil.which("loopwright")
    if found is None:
        raise EnvironmentFailed("there is no program `loopwright`: this wheel was built without it; "
                                "put it on PATH or name it by LOOPWRIGHT_EXECUTABLE")
    return found


def run(arguments: Sequence[str], on_line: Callable[[str], None] | None = None) -> Any:
    """The document that the program prints with --json. Errors are raised by its exit code.

    KeyboardInterrupt stops the program as Ctrl-C does: it ends with what it has, and its document
    is returned if it printed one.
    """
    command = [executable(), *arguments, "--json"]
    _log.debug("running %s", command)
    # A session of its own: the terminal's Ctrl-C reaches this process alone, which passes it on once.
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, start_new_session=True)
    lines: list[str] = []
    reader = threading.Thread(target=_read, args=(child.stderr, lines, on_line), daemon=True)
    reader.start()
    assert child.stdout is not None
    interrupted = False
    try:
        try:
            text = child.stdout.read()
        except KeyboardInterrupt:
            interrupted = True
            child.send_signal(signal.SIGINT)
            text = child.stdout.read()
        code = child.wait()
    except BaseException:                  # also a second Ctrl-C
        child.kill()
        raise
    reader.join()
    document = json.loads(text) if text.strip() else None
    if interrupted and document is None:
        raise KeyboardInterrupt
    if code in (0, _INTERRUPTED) and document is not None:
        return document
    raise _error(code, lines, document)


def _read(stream: Any, lines: list[str], on_line: Callable[[str], None] | None) -> None:
    for line in stream:
        line = line.rstrip("\n")
        lines.append(line)
        _log.info("%s", line)
        if on_line is not None:
            on_line(line)


def _error(code: int, lines: list[str], document: Any) -> Exception:
    prefix = "loopwright: "
    text = "\n".join(line.removeprefix(prefix) for line in lines if line) or "it said nothing"
    # What is said before the error are notes; an error may have several lines.
    starts = [i for i, line in enumerate(lines) if line.startswith(prefix)]
    if starts:
        text = "\n".join(lines[starts[-1]:]).removeprefix(prefix)
    if code < 0:
        text = f"the program died of {signal.Signals(-code).name}: {text}"
    error = error_of(code, text)
    if isinstance(error, NotTuned):
        error.request = document
    return error
