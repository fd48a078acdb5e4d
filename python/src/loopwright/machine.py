"""What there is to compile for, and what this machine can do."""
from __future__ import annotations

from typing import Any

from . import program


def targets() -> list[dict[str, Any]]:
    """Each with its name, family and sizes."""
    documents: list[dict[str, Any]] = program.run(["targets"])
    return documents


def doctor() -> dict[str, Any]:
    """Measures bandwidths, the clock, the timer and noise; takes seconds."""
    document: dict[str, Any] = program.run(["doctor"])
    return document
