"""Exported kernels, loaded: a library, its NAME.json, or a folder of them."""
from __future__ import annotations

import os
from _collections_abc import Mapping       # as `os` has it: collections.abc imports more

from .errors import BadRequest, EnvironmentFailed
from .files import parse_json, read_bytes, read_json, sha256_hex
from .kernel import load_library

TYPE_CHECKING = False                      # errors.py says why
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .kernel import Kernel


class Bundle(Mapping[str, "Kernel"]):
    """The kernels of a folder, by the names they were exported under, or by op and parameters:
    `bundle["dense"]`, `bundle["dense_relu", {"M": 8}]`. Each is loaded when it is first asked for."""

    def __init__(self, folder: str | os.PathLike[str]):
        self.folder = os.fspath(folder)
        self._infos = {}
        for file in sorted(os.listdir(folder)):
            name, extension = os.path.splitext(file)
            if extension == ".json":
                info = _export_of(os.path.join(folder, file))
                if info is not None:
                    self._infos[name] = info
        self._loaded: dict[str, Kernel] = {}
        if not self._infos:
            raise BadRequest(f"{folder} holds no kernel: `loopwright export --shared -o {folder}`")

    def __getitem__(self, key: str | tuple[str, Mapping[str, object]]) -> Kernel:
        name = key if isinstance(key, str) else self._named(*key)
        if name not in self._infos:
            raise KeyError(f"{name}: {self.folder} has {', '.join(self._infos)}")
        if name not in self._loaded:
            self._loaded[name] = _load_json(os.path.join(self.folder, name + ".json"),
                                             self._infos[name])
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._infos)

    def __len__(self) -> int:
        return len(self._infos)

    def _named(self, op: str, parameters: Mapping[str, object]) -> str:
        wanted = {f"{key}={value}" for key, value in parameters.items()}
        fitting = []
        for name, info in self._infos.items():
            words = str(info["workload"]).split()
            if op == words[0].split(":")[-1].removesuffix(".te") and wanted <= set(words[1:]):
                fitting.append(name)
        if len(fitting) != 1:
            said = " ".join([op, *sorted(wanted)])
            raise KeyError(f"{said}: {self.folder} has {len(fitting)} of it" +
                           (f": {', '.join(fitting)}" if fitting else ""))
        return fitting[0]


def load(path: str | os.PathLike[str]) -> Any:
    """A Kernel of NAME.so, or of NAME.json, whose digests must then hold; a Bundle of a folder.
    A library is code: load what you trust."""
    file = os.fspath(path)
    if os.path.isdir(file):
        return Bundle(file)
    if file.endswith(".json"):
        return _load_json(file, read_json(file))
    return load_library(file)


def _export_of(path: str) -> dict[str, Any] | None:
    """Of a file in a folder, where others may keep theirs: None where it describes no kernel."""
    try:
        info = read_json(path)
    except BadRequest:
        return None
    return info if {"library", "workload"} <= info.keys() else None


def _load_json(path: str, info: dict[str, Any]) -> Kernel:
    name = info.get("library")
    if not isinstance(name, str) or os.path.basename(name) != name:
        raise BadRequest(f"{path} names no library: export the kernel with --shared")
    library = os.path.join(os.path.dirname(path), name)
    digest = sha256_hex(read_bytes(library))
    if info.get("files", {}).get(name) != digest:
        raise EnvironmentFailed(f"{library} is not what {os.path.basename(path)} says: its sha256 is "
                                f"{digest}; export both again")
    kernel = load_library(library, info)
    for key, value in parse_json(kernel._facts).items():
        if info.get(key, value) != value:
            raise EnvironmentFailed(f"{path} is not what {name} says of itself: {key} differs; "
                                    "export both again")
    return kernel
