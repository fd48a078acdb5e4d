"""Files of exported kernels: what loads, and what is said of what does not."""
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import loopwright as lw
from loopwright.files import parse_json


@pytest.fixture
def exported(untuned, tmp_path):
    """NAME.json of a kernel's files, copied to where they may be spoilt."""
    untuned("add", N=16).export(tmp_path)
    return tmp_path / "add.json"


def test_loads_library_and_description(exported):
    x = np.ones(16, np.float32)
    for path in (exported, exported.with_suffix(".so"), str(exported)):
        kernel = lw.load(path)
        assert np.array_equal(kernel(x, x), 2 * x)
        assert kernel.info["abi"] == 1 and kernel.name == "add"
    assert lw.load(exported).outcome == "default"


def failing(kind, path):
    with pytest.raises(kind) as caught:
        lw.load(path)
    return str(caught.value)


def test_an_edited_library_is_refused(exported):
    library = exported.with_suffix(".so")
    library.write_bytes(library.read_bytes() + b"\0")
    text = failing(lw.EnvironmentFailed, exported)
    assert "add.so is not what add.json says: its sha256 is" in text


def test_an_edited_description_is_refused(exported):
    info = json.loads(exported.read_text())
    for key, value in (("threads", 7), ("digest", "0" * 64), ("canonical_sha256", "f" * 64)):
        assert info[key] != value
        exported.write_text(json.dumps({**info, key: value}))
        text = failing(lw.EnvironmentFailed, exported)
        assert f"add.json is not what add.so says of itself: {key} differs" in text


def test_says_what_is_missing(exported, tmp_path):
    assert "cannot load" in failing(lw.EnvironmentFailed, tmp_path / "none.so")
    assert "cannot read" in failing(lw.EnvironmentFailed, tmp_path / "none.json")
    exported.with_suffix(".so").unlink()
    assert "cannot read" in failing(lw.EnvironmentFailed, exported)
    for text, said in (("[]", "describes no kernel"), ("{", "is no JSON"),
                       ("{} x", "is no JSON"), ("", "is no JSON"), ('"\\x"', "is no JSON"),
                       ('{"a": 1', "is no JSON"), ("3", "describes no kernel"),
                       ("{}", "names no library"), ('{"library": "../x.so"}', "names no library")):
        exported.write_text(text)
        assert said in failing(lw.BadRequest, exported)
    exported.unlink()
    assert "holds no kernel" in failing(lw.BadRequest, tmp_path)
    garbage = tmp_path / "garbage.so"
    garbage.write_bytes(b"no library at all")
    assert "cannot load" in failing(lw.EnvironmentFailed, garbage)


def test_json_is_read_as_json_reads_it():
    for text in ('{"a": [1, -2.5e3, true, null, "\\u00e9\\n\\ud83d\\ude00 µ"], "b": {}}', " 7\n",
                 '{"a": 1, "a": 2}', "[12345678901234567890, 1e400, -Infinity]"):
        assert parse_json(text) == json.loads(text), text
    assert parse_json("[NaN]")[0] != parse_json("[NaN]")[0]
    for text in ("", "{", "[1,]", "{} {}", "nul", '"\n"', "\u00a01"):
        with pytest.raises(json.JSONDecodeError) as caught:
            parse_json(text)
        with pytest.raises(json.JSONDecodeError) as wanted:
            json.loads(text)
        assert str(caught.value) == str(wanted.value)


def test_another_abi_is_refused(kernel_in_c):
    library = kernel_in_c("""
        const lw_kernel loopwright_kernel = {LOOPWRIGHT_ABI + 1, 2, arguments, "odd", run, 0, 0, 0,
                                             0, 1, "", "d", "{}"};""")
    text = failing(lw.BadRequest, library)
    assert "the kernel is of ABI 2, this program loads ABI 1: export it again" in text


def test_a_processor_without_its_features_is_said(kernel_in_c):
    library = kernel_in_c("""
        const lw_kernel loopwright_kernel = {LOOPWRIGHT_ABI, 2, arguments, "odd", run, 0, 0, 0, 0,
                                             1, "sse2 not-here", "d", "{}"};""")
    assert "odd: this processor lacks not-here" in failing(lw.EnvironmentFailed, library)


def test_an_unknown_type_is_said(kernel_in_c):
    library = kernel_in_c("""
        static const lw_argument odd[] = {{"A", "f8", shape, 1, 1, 4, 1}};
        const lw_kernel loopwright_kernel = {LOOPWRIGHT_ABI, 1, odd, "odd", run, 0, 0, 0, 0, 1, "",
                                             "d", "{}"};""")
    text = failing(lw.BadRequest, library)
    assert "odd: A is of type f8, which this version does not know" in text


def test_a_kernel_that_refuses_is_our_bug(kernel_in_c):
    library = kernel_in_c("""
        static int32_t refuse(const lw_context* c, void* const* b) { (void)c; (void)b; return 9; }
        const lw_kernel loopwright_kernel = {LOOPWRIGHT_ABI, 2, arguments, "odd", refuse, 0, 0, 0,
                                             0, 1, "", "d", "{}"};""")
    with pytest.raises(lw.Bug, match="odd: refused its context with 9"):
        lw.load(library)(np.zeros(4, np.float32))


def test_a_folder_is_a_bundle(untuned, tmp_path, no_db):
    for rows in (8, 16):
        op = lw.op("dense_relu", M=rows, N=16, K=16)
        op.kernel(db=no_db, threads=1, entry=f"dense_m{rows}").export(tmp_path)
    untuned("add", N=16).export(tmp_path)
    bundle = lw.load(tmp_path)
    assert sorted(bundle) == ["add", "dense_m16", "dense_m8"] and len(bundle) == 3
    assert bundle["dense_m8"].args[0].shape == (8, 16)
    assert bundle["dense_relu", {"M": 16}] is bundle["dense_m16"]
    with pytest.raises(KeyError, match="has 2 of it"):
        bundle["dense_relu", {"N": 16}]
    with pytest.raises(KeyError, match="has 0 of it"):
        bundle["dense_relu", {"M": 9}]
    with pytest.raises(KeyError, match="nothing"):
        bundle["nothing"]


def test_a_folder_may_hold_other_files(exported, tmp_path):
    for name, text in (("compile_commands.json", "[]"), ("settings.json", "// none\n{}"),
                       ("package.json", '{"library": "add.so"}')):
        (tmp_path / name).write_text(text)
    assert list(lw.load(tmp_path)) == ["add"]


def test_exports_all_its_files(untuned, tmp_path):
    files = untuned("add", N=16).export(tmp_path / "new")
    assert [Path(path).name for path in files] == ["add.h", "add.json", "add.o", "add.so"]
    moved = shutil.copytree(tmp_path / "new", tmp_path / "elsewhere")
    assert lw.load(moved)["add"].digest == untuned("add", N=16).digest


def test_exports_over_a_loaded_library(exported, no_db):
    """The old kernel computes on; who loads the file anew has the new one."""
    folder, x = exported.parent, np.ones(16, np.float32)
    old = lw.load(exported)
    before = exported.with_suffix(".so").stat().st_ino
    names = sorted(path.name for path in folder.iterdir())
    lw.op("relu", N=16).kernel(db=no_db, threads=1, entry="add").export(folder)
    assert exported.with_suffix(".so").stat().st_ino != before
    assert np.array_equal(old(x, x), 2 * x)
    assert json.loads(exported.read_text())["workload"] == "relu N=16"
    assert sorted(path.name for path in folder.iterdir()) == names


def test_exports_into_its_own_folder(exported):
    kernel = lw.load(exported)
    files = {path: path.read_bytes() for path in exported.parent.iterdir()}
    assert sorted(kernel.export(exported.parent)) == sorted(map(str, files))
    assert {path: path.read_bytes() for path in exported.parent.iterdir()} == files
