"""What to compute: an op with its parameters."""
from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cached_property

from . import program
from .errors import BadRequest, EnvironmentFailed
from .files import read_bytes, read_json, sha256_hex

TYPE_CHECKING = False                      # errors.py says why
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Literal

    from .kernel import Kernel

    OnMiss = Literal["default", "nearest", "error"]


@dataclass(frozen=True)
class Arg:
    """An argument of a kernel. `dtype` by the language's name, "f32"."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    role: Literal["in", "out"]
    const: bool
    read_by_run: bool = True
    nbytes: int = 0

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"


def op(name: str | None = None, /, *, path: str | os.PathLike[str] | None = None,
       text: str | None = None, const: str | Iterable[str] | None = None,
       allow: str | Iterable[str] = (), **parameters: object) -> Op:
    """An op of the library (`lw.op("matmul", M=512)`), of a file (`path=`, `name` where it has
    several) or of a program's text (`text=`).

    `const`: inputs known before the timed calls, () for none; by default as the op says.
    `allow`: "winograd", "bf16": what may be less exact.
    """
    if "name" in parameters and name is None:
        name = str(parameters.pop("name"))
    if (path is not None) + (text is not None) > 1 or (path, text, name) == (None, None, None):
        raise BadRequest("an op is a name of the library, path= or text=")
    if text is not None and name is not None:
        source = _word_of_file(_file_of(text), name)
    elif text is not None:
        source = text if "\n" in text else text + "\n"    # by which the program knows it
    elif path is not None:
        source = _word_of_file(os.fspath(path), name)
    else:
        source = str(name)
    words = (source, *(f"{key}={_word(value)}" for key, value in parameters.items()))
    constants = None if const is None else _names(const)
    return Op(words, constants, _names(allow))


@dataclass(frozen=True)
class Op:
    """Equal where their words are. Nothing is checked until the program is asked."""

    words: tuple[str, ...]
    const: tuple[str, ...] | None = None
    allow: tuple[str, ...] = ()

    def __str__(self) -> str:
        first = os.path.basename(self.words[0])
        if "\n" in self.words[0]:
            named = re.search(r"^\s*op\s+(\w+)", self.words[0], re.MULTILINE)
            first = named[1] if named else "text"
        return " ".join((first, *self.words[1:]))

    @property
    def options(self) -> list[str]:
        """As the program's commands take a workload."""
        options = [] if self.const is None else ["--const", ",".join(self.const) or "none"]
        for what in self.allow:
            options += ["--allow", what]
        return [*self.words, *options]

    @cached_property
    def _facts(self) -> dict[str, Any]:
        from tempfile import TemporaryDirectory

        with TemporaryDirectory(prefix="loopwright-") as folder:
            # Nothing runs here, so nothing need be verified; the database is not asked.
            document = program.run(["export", *self.options, "-q", "--unverified", "--db",
                                    os.path.join(folder, "none.db"), "-o", folder])
            return read_json(_described(document))

    @property
    def args(self) -> tuple[Arg, ...]:
        return args_of(self._facts)

    @property
    def id(self) -> str:
        """The sha256 of its canonical text, the same on every machine."""
        return str(self._facts["canonical_sha256"])

    @property
    def text(self) -> str:
        """The program, its parameters bound, as the language has it."""
        return str(self._facts["program"])

    @property
    def flops(self) -> float:
        """That its result needs."""
        return float(self._facts["flops"])

    def kernel(self, *, db: str | os.PathLike[str] | None = None,
               snapshot: str | os.PathLike[str] | None = None, on_miss: OnMiss = "default",
               threads: int | None = None, target: str | None = None,
               entry: str | None = None) -> Kernel:
        """The best that is known, as code of this process.

        `on_miss`: "default" takes any rung of the ladder, down to the schedule that is derived
        without a measurement; "nearest" all but that; "error" only what was tuned for exactly this.
        What nobody has verified is built and checked in a process of its own first.
        """
        from . import cache
        from .bundle import load
        from .requests import note_miss

        options = [*self.options, *lookup_options(db, snapshot, threads, target)]
        if on_miss == "error":
            options.append("--frozen")
        elif on_miss not in ("default", "nearest"):
            raise BadRequest(f"on_miss is default, nearest or error, not {on_miss!r}")
        if entry is not None:
            options += ["--entry", entry]
        with cache.scratch() as scratch:
            made = os.path.join(scratch, "kernel")
            try:
                document = program.run(["export", *options, "--shared", "-o", made])
            except LookupError:
                note_miss(self)
                raise
            outcome = document["outcome"]
            if outcome != "exact":
                note_miss(self)
            if on_miss == "nearest" and outcome == "default":
                raise _untuned(self)
            described = _described(document)
            digest = read_json(described)["digest"]
            # Equal code may carry another name, time or outcome: each has its place.
            unique = sha256_hex(read_bytes(described))[:8]
            try:
                place = cache.keep(made, f"{digest}-{unique}")
            except OSError as error:
                raise EnvironmentFailed(f"cannot keep the kernel of {self}: {error}") from error
        kernel: Kernel = load(place / os.path.basename(described))
        kernel.op = self
        return kernel


def _described(document: dict[str, Any]) -> str:
    """The NAME.json among the files of an export."""
    return str(next(file for file in document["files"] if file.endswith(".json")))


def args_of(facts: dict[str, Any]) -> tuple[Arg, ...]:
    return tuple(Arg(a["name"], a["type"], tuple(a["shape"]), a["role"], a["const"],
                     a.get("read_by_run", False), a["bytes"]) for a in facts["arguments"])


def lookup_options(db: str | os.PathLike[str] | None, snapshot: str | os.PathLike[str] | None,
                   threads: int | None, target: str | None) -> list[str]:
    return program.flags({"--db": db, "--snapshot": snapshot, "--threads": threads,
                          "--target": target})


def _untuned(wanted: Op) -> Exception:
    from .errors import NotTuned
    from .requests import entry_of

    return NotTuned(f"nothing was tuned for {wanted}, nor for anything near it",
                    {"workloads": [entry_of(wanted)]})


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _names(names: str | Iterable[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        names = names.split(",")
    return tuple(name for name in names if name and name != "none")


def _word_of_file(path: str, name: str | None) -> str:
    if any(letter.isspace() for letter in path):
        raise BadRequest(f"{path!r}: the program takes no file whose path has a space: move it "
                         "(XDG_CACHE_HOME says where texts go), or give one op alone as text=")
    return path if name is None else f"{path}:{name}"


def _file_of(text: str) -> str:
    """A file of the text: an op is chosen of several by its name after the file's."""
    import threading

    from . import cache

    digest = sha256_hex(text.encode())
    path = cache.folder("programs") / f"{digest[:16]}.te"
    try:
        if not path.is_file() or path.read_text() != text:
            new = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}.new")
            new.write_text(text)
            new.replace(path)
    except OSError as error:
        raise EnvironmentFailed(f"cannot write the program's text: {error}") from error
    return str(path)
