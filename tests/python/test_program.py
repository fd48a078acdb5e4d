"""What the program does for the package: ops, tuning, look-ups, requests, errors."""
import json
import logging
import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import loopwright as lw
from conftest import SOURCE
from loopwright.program import run

SCALE = """op scale(N = 32) {
  in X: f32[N]
  out Y[i: N] = X[i] * 3
}
"""


def test_an_op_says_what_it_is():
    op = lw.op("dense_relu", M=8, N=16, K=4)
    assert [str(arg) for arg in op.args] == ["A: f32[8, 4]", "B: f32[4, 16]", "bias: f32[16]",
                                             "D: f32[8, 16]"]
    assert [arg.role for arg in op.args] == ["in", "in", "in", "out"]
    assert len(op.id) == 64 and op.id == lw.op("dense_relu", N=16, M=8, K=4).id
    assert op.id != lw.op("dense_relu", M=9, N=16, K=4).id
    assert op.text.startswith("op dense_relu() {\n  in A: f32[8, 4]\n")
    assert str(op) == "dense_relu M=8 N=16 K=4"
    assert op == lw.op("dense_relu", M=8, N=16, K=4) and hash(op) == hash(op)


def test_flops_are_the_results():
    assert lw.op("matmul", M=64, N=64, K=64).flops == 2 * 64 ** 3


def test_ops_of_files_and_texts(tmp_path, no_db):
    path = tmp_path / "my.te"
    path.write_text(SCALE + "op other(N = 4) {\n  in X: f32[N]\n  out Y[i: N] = X[i]\n}\n")
    x = np.arange(32, dtype=np.float32)
    for op in (lw.op("scale", path=path), lw.op(path=path, name="scale"), lw.op(text=SCALE)):
        assert np.array_equal(op.kernel(db=no_db, threads=1)(x), 3 * x)
    assert lw.op(text=SCALE, N=5).args[0].shape == (5,)
    example = lw.op(path=os.path.join(SOURCE, "examples", "dense_relu.te"), M=64)
    assert example.id == lw.op("dense_relu", M=64).id


def test_a_text_needs_no_file(tmp_path, no_db):
    """The cache may lie where a workload's word could not say."""
    done = run_python(f"""
        import os
        import numpy as np
        import loopwright as lw

        text = {SCALE!r}
        op = lw.op(text=text, N=5, const="X")
        assert str(op) == "scale N=5" and op.args[0].const, op
        kernel = op.kernel(db={no_db!r}, threads=1)
        assert np.array_equal(kernel(np.ones(5, np.float32)), np.full(5, 3))
        assert kernel.info["workload"] == "scale N=5" and " " in kernel.path
        assert lw.load(kernel.path).show() == kernel.show()
        assert not os.path.exists(os.environ["XDG_CACHE_HOME"] + "/loopwright/programs")
        try:
            lw.op("scale", text=text + text.replace("scale", "other"))
        except lw.BadRequest as error:
            print(error)
    """, XDG_CACHE_HOME=str(tmp_path / "a cache"))
    assert "whose path has a space: move it (XDG_CACHE_HOME" in done.stdout, done.stderr


def test_one_of_several_ops_of_a_text(no_db):
    text = SCALE + SCALE.replace("scale", "other").replace("* 3", "* 5")
    kernel = lw.op("other", text=text, N=4).kernel(db=no_db, threads=1)
    assert np.array_equal(kernel(np.ones(4, np.float32)), np.full(4, 5))


def test_a_path_with_a_space_is_refused(tmp_path):
    path = tmp_path / "my op.te"
    path.write_text(SCALE)
    with pytest.raises(lw.BadRequest, match="my op.te': the program takes no file whose path has"):
        lw.op(path=path)


def test_const_and_allow_are_parts_of_it():
    assert not lw.op("dense", M=8, N=8, K=8, const=()).args[1].const
    both = lw.op("matmul", M=8, N=8, K=8, const=["A", "B"])
    assert [arg.const for arg in both.args] == [True, True, False]
    assert lw.op("matmul", M=8, allow="bf16").options == ["matmul", "M=8", "--allow", "bf16"]


@pytest.mark.parametrize("wrong, text", [
    (dict(name="matmull"), "did you mean 'matmul'?"),
    (dict(name="matmul", Q=3), "it has: M=512 N=512 K=512 T=f32"),
    (dict(text="op f( {\n}\n"), "error: "),
    (dict(text="op f() { in X: f32[4] }"), "program:1:"),
])
def test_mistakes_are_said_as_the_program_says_them(wrong, text):
    name = wrong.pop("name", None)
    with pytest.raises(lw.BadRequest) as caught:
        lw.op(name, **wrong).args
    assert text in str(caught.value)


def test_an_op_is_one_of_three():
    for wrong in ({}, {"text": SCALE, "path": "x.te"}):
        with pytest.raises(lw.BadRequest, match="an op is a name of the library, path= or text="):
            lw.op(**wrong)


def test_tunes_in_a_child(tuned_db):
    db, op, tuned, lines = tuned_db
    assert tuned.op == op and tuned.verified and not tuned.interrupted
    assert tuned.best_us > 0 and tuned.ci_us[0] <= tuned.ci_us[1]
    assert tuned.gflops == pytest.approx(op.flops / tuned.best_us / 1e3)
    assert 1 <= tuned.trials <= 8 and tuned.curve[-1][2] > 0
    assert "split(C" in tuned.trace
    html = tuned._repr_html_()
    assert "matmul M=64 N=64 K=64" in html and f"{tuned.best_us:.2f}" in html
    assert os.path.exists(db)


def test_kernels_come_by_the_rung_that_is_allowed(tuned_db, no_db):
    db, op, tuned, _ = tuned_db
    kernel = op.kernel(db=db, threads=1, on_miss="error")
    assert kernel.outcome == "exact" and kernel.trace == tuned.trace
    a, b = (np.random.default_rng(s).standard_normal((64, 64)).astype(np.float32) for s in (1, 2))
    assert np.allclose(kernel(a, b), a @ b, atol=1e-4)
    near = lw.op("matmul", M=60, N=64, K=64)
    assert near.kernel(db=db, threads=1, on_miss="nearest").outcome == "nearest-shape"
    with pytest.raises(lw.NotTuned) as missed:
        near.kernel(db=db, threads=1, on_miss="error")
    assert isinstance(missed.value, LookupError) and missed.value.code == 2
    assert missed.value.request["workloads"][0]["words"] == "matmul M=60 N=64 K=64"
    with pytest.raises(lw.NotTuned) as missed:
        op.kernel(db=no_db, threads=1, on_miss="nearest")
    assert missed.value.request["workloads"][0]["program"] == op.text
    with pytest.raises(lw.BadRequest, match="on_miss is default, nearest or error, not 'maybe'"):
        op.kernel(on_miss="maybe")


def test_captures_what_was_missed(tuned_db, tmp_path):
    db, op, _, _ = tuned_db
    request = tmp_path / "request.json"
    with lw.capture(request) as captured:
        op.kernel(db=db, threads=1)        # tuned
        lw.op(text=SCALE).kernel(db=db, threads=1)
        lw.op(text=SCALE).kernel(db=db, threads=1)
        with pytest.raises(lw.NotTuned):
            lw.op("matmul", M=24, N=8, K=8, const="B", allow="bf16").kernel(
                db=db, threads=1, on_miss="error")
    lw.op("relu", N=8).kernel(db=db, threads=1)
    assert len(captured.ops) == 2
    workloads = json.loads(request.read_text())["workloads"]
    assert [w["program"].split("(")[0] for w in workloads] == ["op scale", "op matmul"]
    assert workloads[1]["const"] == ["B"] and workloads[1]["allow"] == ["bf16"]
    assert "const" not in workloads[0]


def test_captured_texts_are_named_apart(tmp_path):
    """They name their ops as they like; `lock` takes no name twice."""
    request, lock = tmp_path / "request.json", tmp_path / "lock.json"
    db = str(tmp_path / "lw.db")
    with lw.capture(request):
        for factor in ("* 3", "* 4"):
            lw.op(text=SCALE.replace("* 3", factor)).kernel(db=db, threads=1)
    names = [w["name"] for w in json.loads(request.read_text())["workloads"]]
    assert len(set(names)) == 2 and all(name.startswith("scale ") for name in names)
    run(["lock", str(request), "-o", str(lock), "--threads", "1", "--db", db])
    assert lock.exists()


def test_shows_stages(tuned_db):
    db, op, tuned, _ = tuned_db
    kernel = op.kernel(db=db, threads=1)
    assert kernel.show("trace") == tuned.trace
    assert kernel.show().startswith("C[i: 64, j: 64, k: 64 sum]")
    assert "define i32 @matmul" in kernel.show("llvm")
    assert "<pre>C[i: 64" in kernel._repr_html_()
    assert lw.load(kernel.path).show() == kernel.show()
    timing = kernel.bench(*(np.zeros((64, 64), np.float32) for _ in range(2)), seconds=0.05)
    assert 0 < timing.low_us <= timing.us <= timing.high_us and timing.calls > 10


def test_ctrl_c_keeps_what_was_measured(tmp_path):
    """A script is interrupted as a terminal does it, when the search has measured something."""
    db = tmp_path / "lw.db"
    script = textwrap.dedent(f"""
        import loopwright as lw
        op = lw.op("matmul", M=64, N=64, K=64)
        print("begin", flush=True)
        tuned = lw.tune(op, seconds=100, trials=100000, threads=1, db={str(db)!r})
        print("end", tuned.interrupted, tuned.best_us > 0, tuned.trials < 100000, flush=True)
    """)
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert child.stdout.readline() == "begin\n"
    deadline = time.monotonic() + 60
    best = None
    while best is None and time.monotonic() < deadline:
        time.sleep(0.5)
        try:
            answer = lw.Client(db=db).lookup(lw.op("matmul", M=64, N=64, K=64), threads=1)
            best = answer if answer.outcome == "exact" else None
        except lw.Error:
            pass                           # not yet a database
    assert best is not None
    start = time.monotonic()
    os.killpg(child.pid, signal.SIGINT)
    output, errors = child.communicate(timeout=30)
    assert output == "end True True True\n", errors
    assert time.monotonic() - start < 10


def test_progress_is_a_line(capfd, tmp_path):
    lw.tune(lw.op("relu", N=64), trials=2, seconds=20, threads=1, db=tmp_path / "lw.db",
            progress=True)
    assert "trials, the last" in capfd.readouterr().err


def test_progress_is_logged(tuned_db, caplog, tmp_path):
    with caplog.at_level(logging.INFO, "loopwright"):
        lw.op("relu", N=8).kernel(db=tmp_path / "none.db", threads=1)
    assert "untuned: this is the zero-trial schedule" in caplog.text
    assert len(tuned_db[3]) >= tuned_db[2].trials and "stored 1" in tuned_db[3][0]


def program_of(path, script):
    """A program that says what the script does, in the place of ours."""
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(0o755)
    return str(path)


def test_what_progress_raises_comes_last(monkeypatch, caplog, tmp_path):
    """The program is read to its end: more than a pipe holds."""
    script = "yes 'a line' | head -n 40000 >&2; echo last >&2; echo {}; exit ${1:-0}\n"
    monkeypatch.setenv("LOOPWRIGHT_EXECUTABLE", program_of(tmp_path / "says", script))
    heard = []

    def progress(line):
        heard.append(line)
        raise ZeroDivisionError(line)
    with caplog.at_level(logging.INFO, "loopwright"), pytest.raises(ZeroDivisionError, match="a line"):
        run(["0"], progress)
    assert heard == ["a line"] and caplog.messages[-1] == "last"
    with pytest.raises(lw.BadRequest, match="last") as caught:
        run(["1"], progress)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_reads_what_is_no_utf8(monkeypatch, caplog, tmp_path):
    script = "printf '\\302\\265s \\377\\n' >&2; echo '{\"a\": 1}'\n"
    monkeypatch.setenv("LOOPWRIGHT_EXECUTABLE", program_of(tmp_path / "says", script))
    with caplog.at_level(logging.INFO, "loopwright"):
        assert run([]) == {"a": 1}
    assert caplog.messages == ["µs \ufffd"]


def test_what_was_not_measured_has_its_warning(monkeypatch, tmp_path):
    script = "echo '{\"best\": null, \"warnings\": [\"the seconds were over\"]}'; exit 3\n"
    monkeypatch.setenv("LOOPWRIGHT_EXECUTABLE", program_of(tmp_path / "says", script))
    with pytest.raises(lw.NotValid, match="^relu N=8: the seconds were over$"):
        lw.tune(lw.op("relu", N=8), seconds=1, db=tmp_path / "lw.db")


def test_says_what_the_machine_is():
    assert lw.doctor()["cores"] >= 1


def test_targets():
    names = [target["name"] for target in lw.targets()]
    assert "host" in names and "x86_avx2" in names


def run_python(code, **environment):
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True,
                          text=True, env={**os.environ, **environment})


def test_without_a_program_it_says_so(tmp_path):
    done = run_python("""
        import loopwright as lw
        try:
            lw.targets()
        except lw.EnvironmentFailed as error:
            assert isinstance(error, OSError) and error.code == 5
            print(error)
    """, LOOPWRIGHT_EXECUTABLE=str(tmp_path / "none"))
    assert done.stdout == (f"LOOPWRIGHT_EXECUTABLE is {tmp_path / 'none'}, which is no program\n"), (
        done.stderr)


def test_a_cache_that_cannot_be_is_a_temporary_folder(tmp_path, no_db):
    (tmp_path / "file").write_text("")     # no folder can be made below it
    done = run_python(f"""
        import os
        import loopwright as lw
        kernel = lw.op("relu", N=8).kernel(db={no_db!r}, threads=1)
        print(os.path.dirname(kernel.path))
    """, XDG_CACHE_HOME=str(tmp_path / "file"))
    assert done.returncode == 0, done.stderr
    folder = done.stdout.strip()
    assert "loopwright-" in folder and not os.path.exists(folder)


def test_equal_kernels_are_kept_once(no_db):
    first, second = (lw.op("relu", N=24).kernel(db=no_db, threads=1) for _ in range(2))
    assert first.path == second.path and first.digest in first.path


def test_a_damaged_cache_is_mended(no_db):
    op = lw.op("relu", N=25)
    path = op.kernel(db=no_db, threads=1).path
    with open(path, "ab") as file:
        file.write(b"more")
    kernel = op.kernel(db=no_db, threads=1)
    assert kernel.path == path
    assert np.array_equal(kernel(np.full(25, -1, np.float32)), np.zeros(25))
