"""The package's types, and those of a program that uses it, under mypy --strict."""
import ast
import os
import subprocess
import sys
import textwrap

import loopwright as lw
from conftest import SOURCE


def mypy(*arguments, cwd):
    return subprocess.run([sys.executable, "-m", "mypy", *arguments], cwd=cwd, capture_output=True,
                          text=True)


def test_the_package(tmp_path):
    done = mypy("--config-file", os.path.join(SOURCE, "python", "pyproject.toml"),
                "--cache-dir", str(tmp_path), os.path.join(SOURCE, "python", "src", "loopwright"),
                cwd=tmp_path)
    assert done.returncode == 0, done.stdout


def test_the_stub_names_what_there_is():
    with open(os.path.join(SOURCE, "python", "src", "loopwright", "__init__.pyi")) as file:
        names = {alias.asname for node in ast.parse(file.read()).body
                 if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert names == {*lw.__all__, "jax", "torch"}
    for name in lw.__all__:
        assert getattr(lw, name).__module__.startswith("loopwright"), name


def test_a_program_that_uses_it(tmp_path):
    (tmp_path / "user.py").write_text(textwrap.dedent("""
        import loopwright as lw

        def use(db: str) -> float:
            op = lw.op("matmul", M=8)
            tuned = lw.tune(op, seconds=1, db=db)
            kernel = op.kernel(db=db, on_miss="nearest")
            bound: lw.Kernel = kernel.bind(B=bytes(4))
            bound.workers = None
            answer = lw.Client(db=db).lookup(op)
            with lw.capture("x.json") as missed:
                print(len(missed.ops), answer.outcome, kernel.args[0].shape)
            return tuned.best_us
        """))
    done = mypy("--strict", "user.py", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    (tmp_path / "wrong.py").write_text(
        "import loopwright as lw\nlw.op('matmul').kernel(on_miss='maybe')\nlw.tune('matmul')\n")
    done = mypy("--strict", "wrong.py", cwd=tmp_path)
    assert "Found 2 errors" in done.stdout, done.stdout
