"""The folder that kernels are kept in: $XDG_CACHE_HOME/loopwright, by digest of what they are."""
from __future__ import annotations

import atexit
import filecmp
import os
import shutil
import tempfile
from pathlib import Path

from .errors import EnvironmentFailed

_temporary: list[str] = []


def folder(name: str) -> Path:
    """`name` of the cache, made if needed; of a temporary folder where there is no place for one."""
    root = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    if os.path.isabs(root):
        path = Path(root) / "loopwright" / name
        try:
            path.mkdir(parents=True, exist_ok=True)
            if os.access(path, os.W_OK):
                return path
        except OSError:
            pass                           # read-only, or no such home
    if not _temporary:
        _temporary.append(tempfile.mkdtemp(prefix="loopwright-"))
        atexit.register(shutil.rmtree, _temporary[0], ignore_errors=True)
    path = Path(_temporary[0]) / name
    path.mkdir(exist_ok=True)
    return path


def scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder on the file system of the cache, to rename things from."""
    try:
        return tempfile.TemporaryDirectory(prefix=".new-", dir=folder("kernels"))
    except OSError as error:
        raise EnvironmentFailed(f"no room for a kernel in the cache: {error}") from error


def keep(new: str, digest: str) -> Path:
    """Moves the folder to its place. What is there already stays, since somebody may have it loaded,
    unless it is no longer what it was."""
    made, place = Path(new), folder("kernels") / digest
    try:
        made.rename(place)
    except OSError:
        if not place.is_dir():
            raise
        names = os.listdir(made)
        if filecmp.cmpfiles(made, place, names, shallow=False)[0] != names:
            place.rename(made.with_name("damaged"))
            made.rename(place)
    return place
