"""The figures of a sweep of estimates in a browser: they tell their values under the pointer."""

import backfill as bf


def test_a_figure_tells_the_values_of_the_nearest_kind(open_page, tmp_path):
    log = bf.generate("lublin?jobs=200&cpus=64&seed=2")
    bf.sweep_estimates(log, None, ["fcfs", "easy"], ["exact", "under:1"], overrun="extend").report(tmp_path / "a.html")
    plot = open_page(tmp_path / "a.html").locator("#estimates .plot").first
    box = plot.bounding_box()
    plot.hover(position={"x": 0.8 * box["width"], "y": 20})
    tip = plot.locator(".tip").inner_text()
    assert tip.startswith("under:1")
    assert "easy" in tip
