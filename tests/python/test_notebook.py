"""What a notebook shows: well-formed, and nothing of an op's text as markup."""
import xml.etree.ElementTree as ElementTree

import pytest

import loopwright as lw

SVG = "{http://www.w3.org/2000/svg}"
# A name of a file is the caller's.
ODD = "op f(N = 64) {\n  in X: f32[N]\n  out Y[i: N] = X[i] * 2 + X[i]\n}\n"


def shown(value):
    return ElementTree.fromstring(value._repr_html_())


def text_of(element):
    return "".join(element.itertext())


def test_a_search(tuned_db):
    _, op, tuned, _ = tuned_db
    root = shown(tuned)
    table = text_of(root.find("table"))
    for said in (str(op), f"{tuned.best_us:.2f} µs", f"{100 * tuned.bound_fraction:.0f} % of it",
                 tuned.trace.splitlines()[0]):
        assert said in table
    curve, roofline = root.findall(SVG + "svg")
    assert [curve.get("aria-label"), roofline.get("aria-label")] == ["Best so far against time",
                                                                     "Roofline"]
    assert len(curve.findall(f".//{SVG}path[@class='curve']")) == 1
    point, = roofline.findall(f".//{SVG}circle[@class='point']")
    assert float(point.get("cx")) > 0 and str(op) in point.get("data-tip")
    assert len(roofline.findall(f".//{SVG}path[@class='roof']")) == 2    # memory and multiply-adds
    assert "GB/s" in text_of(roofline) and "GFLOP/s, 1 thread" in text_of(roofline)
    for svg in (curve, roofline):
        rules = svg.find(SVG + "style").text.split("}")[:-1]
        assert rules and all(rule.strip().startswith(".loopwright") for rule in rules)


def test_a_search_of_an_odd_name(tmp_path):
    path = tmp_path / "<b>&'.te"
    path.write_text(ODD)
    tuned = lw.tune(lw.op(path=path), trials=2, seconds=20, threads=1, db=tmp_path / "lw.db")
    root = shown(tuned)
    assert "<b>&'.te" in text_of(root.find("table")) and root.find(".//b") is None
    assert any("<b>&'.te" in (element.get("data-tip") or "") for element in root.iter())


def test_a_kernel(untuned, monkeypatch, tmp_path):
    kernel = untuned("matmul", M=16, N=16, K=16)
    root = shown(kernel)
    assert text_of(root.find("p")) == repr(kernel)
    assert text_of(root.find("pre")) == kernel.show("nest")
    alone = lw.load(kernel.path)
    monkeypatch.setenv("LOOPWRIGHT_EXECUTABLE", str(tmp_path / "none"))
    assert text_of(shown(alone).find("pre")) == alone.trace
    with pytest.raises(lw.EnvironmentFailed):
        alone.show("nest")
