"""What the tests share: an empty database, a cache of their own, kernels that are exported once."""
import os
import subprocess

import pytest

import loopwright as lw

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cache")
    os.environ["XDG_CACHE_HOME"] = str(folder)
    return folder


@pytest.fixture(scope="session")
def no_db(tmp_path_factory):
    """The path of a database that nobody has made."""
    return str(tmp_path_factory.mktemp("none") / "none.db")


@pytest.fixture(scope="session")
def untuned(no_db):
    """untuned("matmul", M=8, ...): the zero-trial kernel for one thread."""
    known = {}

    def make(name, threads=1, const=None, **parameters):
        key = (name, threads, const, tuple(parameters.items()))
        if key not in known:
            op = lw.op(name, const=const, **parameters)
            known[key] = op.kernel(db=no_db, threads=threads)
        return known[key]
    return make


@pytest.fixture(scope="session")
def tuned_db(tmp_path_factory):
    """A database in which matmul 64 was tuned, and what tuning it said."""
    db = tmp_path_factory.mktemp("tuned") / "lw.db"
    lines = []
    op = lw.op("matmul", M=64, N=64, K=64)
    tuned = lw.tune(op, seconds=20, trials=8, threads=1, db=db, seed=3, progress=lines.append)
    return db, op, tuned, lines


@pytest.fixture(scope="session")
def packed_kernel(untuned):
    """A kernel that lays its const input out anew and then reads the copy alone, with a result and
    inputs."""
    import numpy as np

    for size in (512, 1024):               # which sizes are worth packing depends on the machine
        kernel = untuned("dense", M=16, N=size, K=size)
        if kernel.packed_bytes > 0:
            break
    else:
        pytest.fail("no zero-trial schedule of dense packs B here")
    generator = np.random.default_rng(5)
    arrays = {arg.name: generator.uniform(-1, 1, arg.shape).astype(np.float32)
              for arg in kernel.args if arg.role == "in"}
    return kernel, arrays["A"] @ arrays["B"], arrays


@pytest.fixture
def kernel_in_c(tmp_path):
    """kernel_in_c(C): the library of a table `loopwright_kernel`; `arguments`, A and B of four f32,
    and `run`, which does nothing, are declared before."""
    def compile_library(code):
        source = tmp_path / "odd.c"
        source.write_text("""
            #include "loopwright/context.h"
            static int32_t run(const lw_context* c, void* const* b) { (void)c; (void)b; return 0; }
            static const int64_t shape[] = {4};
            static const lw_argument arguments[] = {{"A", "f32", shape, 1, 4, 16, 4},
                                                    {"B", "f32", shape, 1, 1, 16, 4}};
            """ + code)
        library = tmp_path / "odd.so"
        subprocess.run(["cc", "-shared", "-fPIC", f"-I{SOURCE}/include", "-o", library, source],
                       check=True)
        return library
    return compile_library
