"""Kernels in JAX programs, on the CPU, by XLA's foreign functions.

    k = lw.jax.kernel(lw.op("dense", M=8, N=512, K=512), db="lw.db")
    y = jax.jit(lambda x, w: k(x, w) + 1)(x, w)

Programs name a kernel by its digest, so what JAX keeps on disk stays true; who loads such a program in
another process registers its kernels before it runs.
"""
from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .bundle import Bundle, load
from .errors import BadRequest, EnvironmentFailed, error_of
from .kernel import Kernel
from .ops import Arg, Op

_LINE = 64                                 # what workspaces are aligned to
_TYPES = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i64": "int64",
          "i32": "int32", "i16": "int16", "i8": "int8", "u8": "uint8", "bool": "bool"}


def _library() -> ctypes.CDLL:
    path = Path(__file__).parent / "_xla.so"
    if not path.is_file():
        raise EnvironmentFailed("this wheel was built without jaxlib, and has nothing for JAX")
    library = ctypes.CDLL(str(path))
    for target in ("loopwright_run", "loopwright_pack"):
        jax.ffi.register_ffi_target(target, jax.ffi.pycapsule(getattr(library, target)),
                                    platform="cpu")
    return library


_xla = _library()


def register(what: Kernel | Bundle | str | os.PathLike[str]) -> None:
    """Makes a kernel, those of a bundle, or those of a path known to programs of this process."""
    known = what if isinstance(what, (Kernel, Bundle)) else load(what)
    for one in known.values() if isinstance(known, Bundle) else [known]:
        error = ctypes.create_string_buffer(1024)
        code = _xla.loopwright_xla_register(os.fsencode(one.path), error, len(error))
        if code != 0:
            raise error_of(code, error.value.decode(errors="replace"))


def __getattr__(name: str) -> Any:
    if name in ("tasks", "capture", "optimize"):
        from .frontends import optimize

        return getattr(optimize, name)
    raise AttributeError(f"module 'loopwright.jax' has no attribute {name!r}")


def disabled_checks() -> list[Any]:
    """For jax.export.export(): that our calls are meant to be exported."""
    return [jax.export.DisabledSafetyCheck.custom_call(name)
            for name in ("loopwright_run", "loopwright_pack")]


def kernel(of: Op | Kernel, *, reference: Callable[..., Any] | None = None,
           **options: Any) -> JaxKernel:
    """A function of JAX arrays. `of`: an op, looked up with `options` as Op.kernel has them, or a
    kernel. `reference`: the same function in jax.numpy, of the same inputs, whose gradient is ours."""
    if isinstance(of, Op):
        of = of.kernel(**options)
    elif options:
        raise BadRequest(f"{of.name}: {', '.join(options)} are for ops; this is a kernel already")
    return JaxKernel(of, reference)


class JaxKernel:
    """`k(A, B)`, under jit, vmap, scan, grad (with a reference) and export. Const inputs that the
    kernel packs are packed in each call; `k(A, packed=k.prepack(B=W))` packs W once, where the
    program says so: in packed memory the weights are an ordinary operand."""

    def __init__(self, kernel: Kernel, reference: Callable[..., Any] | None = None):
        register(kernel)
        self.kernel = kernel
        self.reference = reference
        self._inputs = [arg for arg in kernel.args if arg.role == "in"]
        self._const = [arg for arg in self._inputs if arg.const]
        self._results = [_struct(arg) for arg in kernel.args if arg.role == "out"]
        self._whole = _differentiable(self._call, kernel.name, reference)

    def __repr__(self) -> str:
        return f"<loopwright.jax of {self.kernel!r}>"

    def __call__(self, *inputs: Any, packed: Any = None) -> Any:
        if packed is None:
            return self._whole(*self._checked(self._inputs, inputs))
        return self._run(self._checked(self._left, inputs), packed)

    @property
    def _left(self) -> list[Arg]:
        """The inputs that a call with packed ones takes."""
        return [arg for arg in self._inputs if arg.read_by_run]

    def prepack(self, **const: Any) -> jax.Array:
        """The const inputs, all of them by name, as the kernel reads them: bytes."""
        if self.kernel.packed_bytes == 0:
            raise BadRequest(f"{self.kernel.name} packs nothing: give it its inputs as they are")
        names = [arg.name for arg in self._const]
        if sorted(const) != sorted(names):
            raise BadRequest(f"{self.kernel.name}: prepack takes {', '.join(names)} by name, not "
                             f"{', '.join(const) or 'nothing'}")
        return self._pack(self._checked(self._const, [const[name] for name in names]))

    def _call(self, *inputs: jax.Array) -> Any:
        if self.kernel.packed_bytes == 0:
            return self._run(list(inputs), None)
        const = [x for arg, x in zip(self._inputs, inputs) if arg.const]
        left = [x for arg, x in zip(self._inputs, inputs) if arg.read_by_run]
        return self._run(left, self._pack(const))

    def _pack(self, const: list[jax.Array]) -> jax.Array:
        result = jax.ShapeDtypeStruct((self.kernel.packed_bytes,), jnp.uint8)
        call = jax.ffi.ffi_call("loopwright_pack", result, vmap_method="sequential")
        packed: jax.Array = call(*const, kernel=self.kernel.digest)
        return packed

    def _run(self, inputs: list[jax.Array], packed: jax.Array | None) -> Any:
        operands = inputs if packed is None else [*inputs, packed]
        scratch = _workspace(self.kernel)
        results = self._results if scratch == 0 else [
            *self._results, jax.ShapeDtypeStruct((scratch,), jnp.uint8)]
        call = jax.ffi.ffi_call("loopwright_run", results, vmap_method="sequential")
        got = call(*operands, kernel=self.kernel.digest)[:len(self._results)]
        return got[0] if len(got) == 1 else tuple(got)

    def _checked(self, args: list[Arg], given: Iterable[Any]) -> list[jax.Array]:
        """As arrays; BadRequest, at trace time, of what does not fit."""
        arrays = [jnp.asarray(x) for x in given]
        if len(arrays) != len(args):
            raise TypeError(f"{self.kernel.name}: takes {len(args)} inputs "
                            f"({', '.join(arg.name for arg in args)}), not {len(arrays)}")
        for arg, array in zip(args, arrays):
            wanted = _struct(arg)
            if array.shape != wanted.shape or array.dtype != wanted.dtype:
                raise BadRequest(f"{self.kernel.name}: {arg.name} is {array.dtype}"
                                 f"{list(array.shape)}, the kernel takes {wanted.dtype}"
                                 f"{list(wanted.shape)}")
        return arrays


def _differentiable(call: Callable[..., Any], name: str,
                    reference: Callable[..., Any] | None) -> Callable[..., Any]:
    whole = jax.custom_vjp(call)

    def forward(*inputs: Any) -> Any:
        if reference is None:
            raise BadRequest(f"{name} has no gradient: lw.jax.kernel(..., reference=) takes the same "
                             "function in jax.numpy")
        return call(*inputs), inputs

    def backward(inputs: Any, cotangents: Any) -> Any:
        assert reference is not None
        return jax.vjp(reference, *inputs)[1](cotangents)

    whole.defvjp(forward, backward)
    return whole


def _struct(arg: Arg) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(arg.shape, np.dtype(getattr(jnp, _TYPES[arg.dtype])))


def _workspace(kernel: Kernel) -> int:
    """Bytes of the result that is none, for as many workers as a call may have."""
    lines = [-(-size // _LINE) * _LINE for size in (kernel.workspace_bytes, kernel.private_bytes)]
    size = lines[0] + kernel.threads * lines[1]
    return size + _LINE if size > 0 else 0
