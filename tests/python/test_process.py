"""Kernels and the process: threads, forks, memory, the end."""
import multiprocessing
import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import loopwright as lw


def operands(n):
    generator = np.random.default_rng(n)
    return [generator.standard_normal((n, n)).astype(np.float32) for _ in range(2)]


@pytest.fixture
def parallel(untuned):
    return untuned("matmul", threads=2, M=96, N=96, K=96)


def test_threads_share_a_kernel(parallel, untuned, packed_kernel):
    a, b = operands(96)
    packing, packed_want, arrays = packed_kernel
    bound = packing.bind(B=arrays["B"])
    small = untuned("add", N=16)
    x = np.arange(16, dtype=np.float32)
    wrong = []

    def work():
        mine = parallel(a, b)
        for _ in range(100):
            good = (np.array_equal(parallel(a, b), mine) and np.array_equal(small(x, x), 2 * x)
                    and np.allclose(bound(arrays["A"]), packed_want, atol=1e-4))
            if not good:
                wrong.append(threading.get_ident())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_releases_the_gil(kernel_in_c):
    """A kernel waits for what only Python can write meanwhile."""
    library = kernel_in_c("""
        #include <time.h>
        static int32_t wait_for_it(const lw_context* context, void* const* buffers) {
          (void)context;
          for (int i = 0; i < 20000; ++i) {
            if (*(volatile float*)buffers[0] != 0) return 0;
            nanosleep(&(struct timespec){0, 1000000}, NULL);
          }
          return 1;
        }
        const lw_kernel loopwright_kernel = {LOOPWRIGHT_ABI, 2, arguments, "wait", wait_for_it, 0, 0,
                                             0, 0, 1, "", "d", "{}"};""")
    kernel = lw.load(library)
    a, out = np.zeros(4, np.float32), np.zeros(4, np.float32)
    failed = []

    def call():
        try:
            kernel(a, out=out)
        except Exception as error:         # as when it waited in vain
            failed.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    a[0] = 1
    thread.join(60)
    assert not thread.is_alive() and not failed


def test_forked_children_have_a_pool_of_their_own(parallel):
    """In a process without JAX, whose threads nobody forks."""
    done = run_python(f"""
        import multiprocessing
        import numpy as np
        import loopwright as lw

        kernel = lw.load({parallel.path!r})
        kernel.workers = 2
        a, b = np.random.default_rng(1).standard_normal((2, 96, 96)).astype(np.float32)
        want = kernel(a, b)                # the pool is there

        def in_child(queue):
            queue.put(bool(np.array_equal(kernel(a, b), want)))

        fork = multiprocessing.get_context("fork")
        queue = fork.SimpleQueue()
        children = [fork.Process(target=in_child, args=(queue,)) for _ in range(2)]
        for child in children:
            child.start()
        for child in children:
            child.join(60)
        print([child.exitcode for child in children], queue.get(), queue.get(),
              np.array_equal(kernel(a, b), want))
    """)
    assert done.stdout == "[0, 0] True True True\n", done.stderr


def by_path(path, a, b, want, queue):
    kernel = lw.load(path)
    kernel.workers = 2
    queue.put(bool(np.array_equal(kernel(a, b), want)))


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_other_processes_load_it_again(parallel, method):
    a, b = operands(96)
    context = multiprocessing.get_context(method)
    queue = context.SimpleQueue()
    child = context.Process(target=by_path, args=(parallel.path, a, b, parallel(a, b), queue))
    child.start()
    child.join(60)
    assert child.exitcode == 0 and queue.get()


def run_python(code, **environment):
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True,
                          text=True, timeout=300, env={**os.environ, **environment})


def test_calls_leak_nothing(untuned, packed_kernel):
    """Of each kind of call, resident memory after a hundred thousand, and of the plainest after a
    million."""
    done = run_python(f"""
        import numpy as np
        import loopwright as lw

        def resident():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * 4096

        add = lw.load({untuned("add", N=16).path!r})
        x = np.ones(16, np.float32)
        out = np.empty(16, np.float32)
        double = np.ones(16)

        class Exporter:
            def __dlpack__(self, **options):
                return x.__dlpack__(**options)

        def refused():
            try:
                add(x, double)
            except lw.BadRequest:
                pass

        bound = add.bind(B=x)
        kinds = [(lambda: add(x, x, out=out), 1_000_000), (lambda: add(x, x), 100_000),
                 (lambda: add(A=x, B=x), 100_000), (lambda: bound(x), 100_000),
                 (lambda: add(Exporter(), x), 100_000), (refused, 20_000),
                 (lambda: add.bind(B=x), 100_000), (lambda: lw.load(add.path), 2_000)]
        for call, count in kinds:
            for _ in range(count // 10):
                call()
            before = resident()
            for _ in range(count):
                call()
            grown = resident() - before
            assert grown < 1 << 20, (grown, count)
        print("flat")
    """)
    assert done.stdout == "flat\n", done.stderr


def test_references_are_returned(untuned):
    add = untuned("add", N=16)
    x, out = np.ones(16, np.float32), np.empty(16, np.float32)
    before = [sys.getrefcount(o) for o in (x, out, add)]
    for _ in range(100):
        add(x, x, out=out)
        add(x, x)
        with pytest.raises(lw.BadRequest):
            add(x, out[:3])
    assert [sys.getrefcount(o) for o in (x, out, add)] == before


def test_the_interpreter_ends_with_live_kernels(parallel):
    done = run_python(f"""
        import threading
        import numpy as np
        import loopwright as lw
        kernel = lw.load({parallel.path!r})
        kernel.workers = 2
        a = np.ones((96, 96), np.float32)
        held = kernel.bind(B=a)
        held(a)
        def forever():
            while True:
                held(a)
        threading.Thread(target=forever, daemon=True).start()
        class Late:
            def __del__(self):
                held(a)
        late = Late()
        print("end")
    """)
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr


def test_importing_is_light(untuned):
    done = run_python("""
        import sys
        import loopwright
        heavy = {"numpy", "json", "subprocess", "logging", "hashlib", "tempfile", "pathlib"}
        assert not heavy & set(sys.modules), heavy & set(sys.modules)
        loopwright.Kernel
        assert "numpy" not in sys.modules
    """)
    assert done.returncode == 0, done.stderr


def test_loading_and_calling_import_little(untuned, tmp_path):
    """What takes longer to import than a kernel to load; bench/python/start.py measures it."""
    untuned("add", N=16).export(tmp_path)
    done = run_python(f"""
        import sys
        before = set(sys.modules)
        import loopwright as lw
        kernel = lw.load({str(tmp_path)!r})["add"]
        x = memoryview(bytearray(64)).cast("f")
        assert kernel(x, x)[3] == 0 and kernel.info["outcome"] == "default"
        loaded = {{name for name in set(sys.modules) - before if not name.startswith("loopwright")}}
        heavy = {{"json", "hashlib", "re", "enum", "typing", "functools", "collections", "pathlib"}}
        assert not heavy & loaded, heavy & loaded
        import json
        assert kernel.info == json.load(open({str(tmp_path)!r} + "/add.json"))
    """)
    assert done.returncode == 0, done.stderr


def test_a_first_look_up_imports_what_it_needs(no_db):
    done = run_python(f"""
        import sys
        import loopwright as lw
        lw.Client(db={no_db!r}).lookup(lw.op("relu", N=8), threads=1)
        heavy = {{"numpy", "tempfile", "shutil", "pathlib", "typing", "hashlib", "logging"}}
        heavy &= set(sys.modules)
        assert not heavy, heavy
    """)
    assert done.returncode == 0, done.stderr


def test_without_numpy_results_are_memory_views(untuned):
    done = run_python(f"""
        import array, sys
        import loopwright as lw
        add = lw.load({untuned("add", N=16).path!r})
        got = add(array.array("f", range(16)), array.array("f", [1] * 16))
        assert isinstance(got, memoryview) and got.shape == (16,) and got[3] == 4, got
        assert "numpy" not in sys.modules
        import numpy
        assert isinstance(add(got, got), numpy.ndarray)
    """)
    assert done.returncode == 0, done.stderr
