"""What goes wrong, by class. `code` is the exit code that the program has for the same."""
from __future__ import annotations

TYPE_CHECKING = False                      # typing's, whose import takes longer than loading a kernel
if TYPE_CHECKING:
    from typing import Any


class Error(Exception):
    code = 70


class BadRequest(Error, ValueError):
    """An argument, a workload or a file that is none."""

    code = 1


class NotTuned(Error, LookupError):
    """A look-up missed and nothing else was allowed. `request` says what to tune, as `lock` and
    `tune --suite` read it."""

    code = 2

    def __init__(self, text: str, request: dict[str, Any] | None = None):
        super().__init__(text)
        self.request = request


class NotValid(Error):
    """Something was measured, but nothing passed its check."""

    code = 3


class EnvironmentFailed(Error, OSError):
    """The disk, a database, the program, or a processor that lacks what a kernel uses."""

    code = 5


class Bug(Error):
    """An error of Loopwright's own."""


def error_of(code: int, text: str) -> Error:
    for kind in (BadRequest, NotTuned, NotValid, EnvironmentFailed):
        if kind.code == code:
            return kind(text)
    return Bug(text)
