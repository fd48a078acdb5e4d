"""Imported before JAX is: one processor, one thread of XLA's, as the kernels have."""
import contextlib
import os

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false " + os.environ.get("XLA_FLAGS", "")
_ALL = os.sched_getaffinity(0)
_ONE = {min(_ALL)}
os.sched_setaffinity(0, _ONE)


@contextlib.contextmanager
def all_processors():
    """For the programs that this thread starts: a search compiles on all."""
    os.sched_setaffinity(0, _ALL)
    try:
        yield
    finally:
        os.sched_setaffinity(0, _ONE)
