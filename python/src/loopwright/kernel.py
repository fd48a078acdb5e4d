"""A kernel: code that was exported by `loopwright export --shared`, called on arrays."""
from __future__ import annotations

import os

from . import _kernel
from .errors import BadRequest, EnvironmentFailed, Error
from .files import parse_json

TYPE_CHECKING = False                      # errors.py says why
if TYPE_CHECKING:
    from typing import Any, Literal

    from .ops import Arg, Op
    from .timing import Timing

    Stage = Literal["expr", "trace", "nest", "kernel", "llvm", "asm"]


class Kernel(_kernel.Kernel):
    """`k(A, B)` allocates the results, `k(A, B, out=C)` writes them into C (a tuple where there are
    several). Arguments are anything with the buffer protocol or DLPack, row-major; what is wrong with
    one is said by its name and nothing runs. Inputs may be given by name.

    Thread-safe, and the GIL is released in all but the shortest calls. `workers`: how many threads a
    call uses, at most; None: as many as the kernel was tuned for, of lw.set_num_threads().
    """

    path: str
    info: dict[str, Any]
    op: Op | None

    def __repr__(self) -> str:
        bound = "" if len(self.inputs) == len([a for a in self.args if a.role == "in"]) else ", bound"
        return f"<loopwright kernel {self.name} ({self.outcome}{bound}, {self.digest[:12]})>"

    def _repr_html_(self) -> str:
        from html import escape

        try:
            nest = self.show("nest")
        except Error:                      # there is no program to show it, or another
            nest = self.trace
        return f"<div><p>{escape(repr(self))}</p><pre>{escape(nest)}</pre></div>"

    @property
    def args(self) -> tuple[Arg, ...]:
        """Inputs in order of declaration, then results."""
        from .ops import Arg

        return tuple(Arg(name, dtype, shape, "out" if output else "in", const, reads, size)
                     for name, dtype, shape, output, const, reads, size in self._arguments)

    @property
    def outcome(self) -> str:
        """The rung of the ladder: exact, loose, nearest-shape, nearest-target, default."""
        return str(self.info.get("outcome", ""))

    @property
    def trace(self) -> str:
        return str(self.info.get("trace", ""))

    def reads(self, name: str) -> bool:
        """Whether calls read the input; False: once it is bound, its array may be freed."""
        for arg in self.args:
            if arg.name == name and arg.role == "in":
                return arg.read_by_run
        raise BadRequest(f"{self.name}: there is no input {name!r}")

    def bind(self, **inputs: Any) -> Kernel:
        """A kernel of the other inputs. Const ones are packed here, once; who changes one binds
        again. Arrays that calls read (`reads`) are held."""
        bound = self._bind(inputs)
        bound.__dict__.update(self.__dict__)
        return bound

    def show(self, stage: Stage = "nest") -> str:
        """The text of a stage: expr, trace, nest, kernel, llvm, asm. By the program, but for trace."""
        import tempfile

        from . import program

        if stage == "trace":
            return self.trace
        options = self._words()
        with tempfile.NamedTemporaryFile("w", suffix=".trace") as trace:
            trace.write(self.trace)
            trace.flush()
            document = program.run(["show", *options, "--stage", stage, "--trace", trace.name,
                                    "--target", str(self.info.get("target", "host")),
                                    "--threads", str(self.threads)])
        return str(document["text"])

    def export(self, folder: str | os.PathLike[str], *, tvm_ffi: bool = False) -> list[str]:
        """Copies what it was exported as into `folder`: for C the object and header, for Python the
        library, and NAME.json. `tvm_ffi`: also NAME_tvm_ffi.so, whose NAME(inputs..., results...)
        tvm_ffi.load_module() gives to torch, JAX, TVM and Rust; made by the C compiler, $CC or cc."""
        os.makedirs(folder, exist_ok=True)
        own, name = os.path.split(os.path.splitext(self.path)[0])
        files = [_copy(os.path.join(own, file), os.path.join(folder, file))
                 for file in sorted(os.listdir(own or ".")) if file.startswith(name + ".")]
        if tvm_ffi:
            files.append(_link_tvm_ffi(os.path.join(folder, name), self.name))
        return files

    def bench(self, *inputs: Any, seconds: float = 0.2) -> Timing:
        """How long a call takes here and now, beside whatever else runs."""
        from .timing import time_calls

        return time_calls(self, inputs, seconds)

    def _words(self) -> list[str]:
        if self.op is not None:
            return self.op.options
        constant = [a.name for a in self.args if a.const]
        return [str(self.info["program"]), "--const", ",".join(constant) or "none"]


def load_library(path: str, info: dict[str, Any] | None = None) -> Kernel:
    """Of NAME.so; `info` of NAME.json, else what the library says of itself."""
    kernel = Kernel(path)
    kernel.path = path
    kernel.info = parse_json(kernel._facts) if info is None else info
    kernel.op = None
    return kernel


def _copy(source: str, place: str) -> str:
    """Never into what is there: a library that is loaded would change below its calls."""
    import shutil
    import tempfile

    if os.path.exists(place) and os.path.samefile(source, place):
        return place
    with tempfile.TemporaryDirectory(prefix=".new-", dir=os.path.dirname(place)) as scratch:
        new = shutil.copy2(source, scratch)
        os.replace(new, place)
    return place


def _link_tvm_ffi(base: str, entry: str) -> str:
    """BASE_tvm_ffi.so of BASE.o."""
    import subprocess

    own = os.path.dirname(__file__)
    library = base + "_tvm_ffi.so"
    command = [os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O2", f"-DNAME={entry}",
               f"-I{own}/include", "-Wl,-Bsymbolic", f"-Wl,--defsym=loopwright_kernel={entry}_kernel",
               "-o", library, os.path.join(own, "tvm_ffi.c"), base + ".o"]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except OSError as error:
        raise EnvironmentFailed(f"no C compiler for {library}: {error}") from error
    except subprocess.CalledProcessError as error:
        raise EnvironmentFailed(f"{command[0]} cannot make {library}: {error.stderr}") from error
    return library
