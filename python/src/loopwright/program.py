"""The program `loopwright` as a child process: found, run, its JSON and its errors.

Always started by exec and never by a fork of this process, which may have threads.
"""
from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading

from .errors import EnvironmentFailed, NotTuned, error_of

TYPE_CHECKING = False                      # errors.py says why
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import IO, Any

_INTERRUPTED = 4                           # its exit code: stopped, and what it had is kept


def executable() -> str:
    """$LOOPWRIGHT_EXECUTABLE, else what the wheel carries, else the first on PATH."""
    named = os.environ.get("LOOPWRIGHT_EXECUTABLE")
    if named:
        if not os.access(named, os.X_OK):
            raise EnvironmentFailed(f"LOOPWRIGHT_EXECUTABLE is {named}, which is no program")
        return named
    carried = os.path.join(os.path.dirname(__file__), "bin", "loopwright")
    if os.path.isfile(carried):
        return carried
    import shutil

    found = shutil.which("loopwright")
    if found is None:
        raise EnvironmentFailed("there is no program `loopwright`: this wheel was built without it; "
                                "put it on PATH or name it by LOOPWRIGHT_EXECUTABLE")
    return found


def flags(values: Mapping[str, object]) -> list[str]:
    """Words of the command line, of those options that are not None."""
    return [word for flag, value in values.items() if value is not None
            for word in (flag, os.fspath(value) if isinstance(value, os.PathLike) else str(value))]


def run(arguments: Sequence[str], on_line: Callable[[str], None] | None = None,
        stoppable: bool = False, *, text: str = "", also: Collection[int] = ()) -> Any:
    """The document that the program prints with --json. Errors are raised by its exit code, but for
    those `also` taken where there is a document. `text`: what it reads from its standard input.

    `stoppable`: KeyboardInterrupt stops the program as Ctrl-C does, once: it ends with what it has,
    and its document is returned if it printed one. Else it ends the program and is raised.
    What `on_line` raises is raised when the program has ended; it is given no more lines.
    """
    command = [executable(), *arguments, "--json"]
    _log("debug", "running %s", command)
    # A session of its own: the terminal's Ctrl-C reaches this process alone, which passes it on once.
    child = subprocess.Popen(command, stdin=subprocess.PIPE if text else subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
                             errors="replace", start_new_session=True)
    printed: list[str] = []
    said: list[str] = []
    failures: list[BaseException] = []     # of on_line, one at most
    hear = _listener(said, on_line, failures)
    readers = [threading.Thread(target=_read, args=(child.stdout, printed.append)),
               threading.Thread(target=_read, args=(child.stderr, hear))]
    for reader in readers:
        reader.start()
    interrupted = False
    try:
        if child.stdin is not None:
            _write(child.stdin, text)
        code = child.wait()
    except KeyboardInterrupt:
        if not stoppable:
            child.kill()
            raise
        interrupted = True
        child.send_signal(signal.SIGINT)
        code = _wait_again(child)
    except BaseException:
        child.kill()
        raise
    for reader in readers:
        reader.join()
    result = "".join(printed)
    document = json.loads(result) if result.strip() else None
    if interrupted and document is None:
        raise KeyboardInterrupt
    failure = failures[0] if failures else None
    if code not in (0, _INTERRUPTED, *also) or document is None:
        raise _error(code, said, document) from failure
    if failure is not None:
        raise failure
    return document


def _wait_again(child: subprocess.Popen[str]) -> int:
    try:
        return child.wait()
    except BaseException:                  # a second Ctrl-C
        child.kill()
        raise


def _log(level: str, text: str, value: object) -> None:
    """To the logger `loopwright`. Nobody listens in a process that has not imported `logging`."""
    logging = sys.modules.get("logging")
    if logging is not None:
        getattr(logging.getLogger("loopwright"), level)(text, value)


def _write(stream: IO[str], text: str) -> None:
    try:
        with stream:
            stream.write(text)
    except BrokenPipeError:                # it ended without reading, and says why
        pass


def _read(stream: IO[str], take: Callable[[str], None]) -> None:
    with stream:
        for line in stream:
            take(line)


def _listener(said: list[str], on_line: Callable[[str], None] | None,
              failures: list[BaseException]) -> Callable[[str], None]:
    def hear(line: str) -> None:
        said.append(line.rstrip("\n"))
        _log("info", "%s", said[-1])
        if on_line is None or failures:
            return
        try:
            on_line(said[-1])
        except BaseException as error:     # who stops reading stops the program, its pipe being full
            failures.append(error)
    return hear


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
