"""Kernels for the ops that parts of a graph are."""
from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Sequence
from typing import Any

from ..errors import BadRequest, NotTuned
from ..kernel import Kernel
from ..ops import Op, op
from ..requests import Capture
from .groups import Group

_log = logging.getLogger("loopwright")


def kernel_of(task: Op, options: dict[str, Any], framework: str) -> Kernel | None:
    """None: the framework has it. BadRequest: the options are wrong."""
    try:
        return task.kernel(**options)
    except NotTuned:
        return None
    except BadRequest as error:
        # Of the options? Then of any op. Else the language refuses what the translator has written.
        with contextlib.suppress(NotTuned):
            op("relu", N=1).kernel(**options)
        _log.warning("%s is left to %s: %s", task, framework, error)
        return None


def note_hits(groups: Sequence[Group], hits: int) -> None:
    _log.info("%d of %d tasks have kernels", hits, sum(bool(group.text) for group in groups))


def write_request(path: str | os.PathLike[str], ops: Sequence[Op]) -> Capture:
    request = Capture(path)
    request.ops = list(ops)
    request.write()
    return request
