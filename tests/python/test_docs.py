"""The examples of docs/python.md, as they stand there."""
import os
import re

import pytest

import loopwright as lw
from conftest import SOURCE


def examples():
    with open(os.path.join(SOURCE, "docs", "python.md")) as file:
        text = file.read()
    heading = "none"
    for part in re.split(r"(^## .*$)", text, flags=re.M):
        if part.startswith("## "):
            heading = part[3:]
        for code in re.findall(r"^```python\n(.*?)^```", part, flags=re.M | re.S):
            yield pytest.param(code, id=heading)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("docs")


@pytest.mark.parametrize("code", list(examples()))
def test_example(code, folder, monkeypatch):
    if "import torch" in code:
        pytest.importorskip("torch")       # ./run_tests --torch
    monkeypatch.chdir(folder)
    assert len(code.strip().splitlines()) <= 15
    try:
        exec(compile(code, "docs/python.md", "exec"), {})
    finally:
        lw.set_num_threads(0)
