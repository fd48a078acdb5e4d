"""Loopwright: fast kernels for tensor expressions, tuned, looked up and called.

    import loopwright as lw
    op = lw.op("matmul", M=512, N=512, K=512)
    lw.tune(op, seconds=10, threads=1, db="lw.db")
    k = op.kernel(db="lw.db", threads=1)
    C = k(A, B)

Importing this loads nothing but names: each module is read when a name of it is first used, and
NumPy is never imported, only used where the caller has it.
"""
from importlib import import_module

_PLACES = {
    "op": "ops", "Op": "ops", "Arg": "ops",
    "Kernel": "kernel", "Timing": "timing",
    "load": "bundle", "Bundle": "bundle",
    "tune": "tuning", "Tuned": "tuning",
    "Client": "client", "Answer": "client",
    "Study": "studies", "StudyWorkload": "studies", "StudyEvent": "studies",
    "capture": "requests", "Capture": "requests",
    "targets": "machine", "doctor": "machine",
    "Error": "errors", "BadRequest": "errors", "NotTuned": "errors", "NotValid": "errors",
    "EnvironmentFailed": "errors", "Bug": "errors",
    "set_num_threads": "_kernel", "get_num_threads": "_kernel",
}
_BRIDGES = ["jax", "torch"]                # for those who have these
__all__ = sorted(_PLACES)
__version__ = "0.1.0"


def __getattr__(name):
    if name in _PLACES:
        value = getattr(import_module("loopwright." + _PLACES[name]), name)
    elif name in _BRIDGES:
        try:
            value = import_module("loopwright." + name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
            raise AttributeError(f"loopwright.{name} needs {name}: "
                                 f"pip install loopwright[{name}]") from error
    else:
        raise AttributeError(f"module 'loopwright' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__():
    return [*__all__, *_BRIDGES, "__version__"]
