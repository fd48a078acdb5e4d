"""The wheel, installed where nothing else is, and removed again."""
import os
import subprocess
import sys
import textwrap
import venv

import pytest


def files_below(folder):
    return sorted(path for path in folder.rglob("*"))


@pytest.mark.skipif("LOOPWRIGHT_TEST_WHEEL" not in os.environ, reason="tests/python/run names it")
def test_works_alone_and_leaves_nothing(tmp_path):
    place = tmp_path / "venv"
    venv.create(place)
    before = files_below(place)
    python = str(place / "bin" / "python")

    def pip(*arguments):
        subprocess.run([sys.executable, "-m", "pip", "--python", python, *arguments, "-q",
                        "--disable-pip-version-check"], check=True)
    pip("install", "--no-index", os.environ["LOOPWRIGHT_TEST_WHEEL"])
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run([python, "-c", textwrap.dedent("""
        import array
        import loopwright as lw

        kernel = lw.op("relu", N=8).kernel(db="none.db", threads=1)
        print(list(kernel(array.array("f", [-1, 2] * 4))), kernel._repr_html_().count("<pre>"))
        assert lw.__file__.startswith(__import__("sys").prefix)
        """)], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stdout == "[0.0, 2.0, 0.0, 2.0, 0.0, 2.0, 0.0, 2.0] 1\n", done.stderr
    assert (tmp_path / "none.db").exists() is False
    pip("uninstall", "-y", "loopwright")
    assert files_below(place) == before
