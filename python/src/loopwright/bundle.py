"""Exported kernels, loaded: a library, its NAME.json, or a folder of them."""
from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import BadRequest, EnvironmentFailed
from .kernel import load_library

if TYPE_CHECKING:
    from .kernel import Kernel


class Bundle(Mapping[str, "Kernel"]):
    """The kernels of a folder, by the names they were exported under, or by op and parameters:
    `bundle["dense"]`, `bundle["dense_relu", {"M": 8}]`. Each is loaded when it is first asked for."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._infos = {path.stem: _read(path) for path in sorted(folder.glob("*.json"))
                       if path.name != "bundle.json"}
        self._infos = {name: info for name, info in self._infos.items() if "library" in info}
        self._loaded: dict[str, Kernel] = {}
        if not self._infos:
            raise BadRequest(f"{folder} holds no kernel: `loopwright export --shared -o {folder}`")

    def __getitem__(self, key: str | tuple[str, Mapping[str, object]]) -> Kernel:
        name = key if isinstance(key, str) else self._named(*key)
        if name not in self._infos:
            raise KeyError(f"{name}: {self.folder} has {', '.join(self._infos)}")
        if name not in self._loaded:
            self._loaded[name] = _load_json(self.folder / f"{name}.json", self._infos[name])
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
    file = Path(path)
    if file.is_dir():
        return Bundle(file)
    if file.suffix == ".json":
        return _load_json(file, _read(file))
    return load_library(file)


def _read(path: Path) -> dict[str, Any]:
    try:
        info = json.loads(path.read_bytes())
    except OSError as error:
        raise EnvironmentFailed(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise BadRequest(f"{path} is no JSON: {error}") from error
    if not isinstance(info, dict):
        raise BadRequest(f"{path} describes no kernel")
    return info


def _load_json(path: Path, info: dict[str, Any]) -> Kernel:
    name = info.get("library")
    if not isinstance(name, str) or os.path.basename(name) != name:
        raise BadRequest(f"{path} names no library: export the kernel with --shared")
    library = path.parent / name
    try:
        digest = hashlib.sha256(library.read_bytes()).hexdigest()
    except OSError as error:
        raise EnvironmentFailed(f"cannot read {library}: {error.strerror}") from error
    if info.get("files", {}).get(name) != digest:
        raise EnvironmentFailed(f"{library} is not what {path.name} says: its sha256 is {digest}; "
                                "export both again")
    kernel = load_library(library, info)
    for key, value in json.loads(kernel._facts).items():
        if info.get(key, value) != value:
            raise EnvironmentFailed(f"{path} is not what {name} says of itself: {key} differs; "
                                    "export both again")
    return kernel
