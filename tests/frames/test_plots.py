"""What a notebook shows of two lists and of many scores, in a real kernel too, and the shapes that notebooks have at hand."""

import json
import pickle
import re
from importlib import import_module
from tempfile import TemporaryDirectory
from xml.etree import ElementTree as ET

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import monitor
from monitor.model.errors import InputError
from places import ROOT
from servers.chromium import TROUBLE
from tables import parsed

EVIL = '<script>alert(1)</script>"\u202e\x1b'
BASE = {"u1": ["a", "b", "c"], "u2": ["d"], "u3": []}
OTHER = {"u1": ["c", "a", "x"], "u2": ["d"], "u3": ["e"]}


PAIR_OR_CHART = r'<div class="slopes">.*?</ol></div>|<svg.*?</svg>'


def drawings(html):
    """Its charts, each well-formed; nothing in it asks for anything from elsewhere."""
    assert not re.search(r"https?:|src=|@import|<script", html)
    return [ET.fromstring(each) for each in re.findall(PAIR_OR_CHART, html, re.DOTALL)]  # noqa: S314 - our own


def test_the_result_of_a_pair_is_a_dict_that_shows_both_lists_as_they_were_measured():
    found = monitor.compare(["a", 7, "a", "b", "z"], ["7", "b"], "overlap", 4)

    assert found == {"overlap": pytest.approx(2 / 3)}
    assert repr(found) == repr(dict(found))
    assert json.loads(json.dumps(found)) == pickle.loads(pickle.dumps(found)) == found  # noqa: S301 - our own
    assert found.lists == (("a", "7", "b"), ("7", "b"))
    (chart,) = drawings(found._repr_html_())
    assert " ".join(each.text or "" for each in chart.iter("span")) == "1 a 2 7 3 b 1 7 2 b"


def test_titles_replace_ids_and_text_from_outside_is_escaped():
    html = monitor.plot_pair([1, "x", EVIL], [EVIL, 1], titles={1: "Tea", "x": EVIL}).html

    (chart,) = drawings(html)
    assert {"Tea (1)"} < {each.get("title") for each in chart.iter("li")}
    assert not set(html) & {"\u202e", "\x1b"}


def test_of_long_lists_the_first_items_are_shown_and_how_many_there_are():
    html = monitor.compare(np.arange(1000), np.arange(1000)[::-1])._repr_html_()

    assert "the first 50 of 1,000 places" in html
    assert len(html) < 40_000


def labels(plot):
    return [chart.get("aria-label") for chart in drawings(plot.html)]


def test_scores_of_many_are_a_chart_a_metric_and_segment_over_the_metrics_range():
    rng = np.random.default_rng(1)
    lists = {user: rng.permutation(40)[:10].tolist() for user in range(200)}
    frame = monitor.compare_many(
        lists, {user: items[::-1] for user, items in lists.items()}, ("extended_tau", "footrule")
    )

    whole = monitor.plot_scores(frame)
    assert labels(whole) == ["extended_tau, all: 200 users", "footrule, all: 200 users"]
    low, *_, high, mean, by_chance = (
        each.text for each in drawings(whole._repr_html_())[0].iter("text")
    )
    assert (low, high) == ("-1.0", "1.0")
    assert mean == f"mean {frame['extended_tau'].mean():.4f}"
    assert by_chance == f"by chance {frame.attrs['by_chance']['extended_tau']:.4f}"
    assert len(labels(monitor.plot_scores(frame, ["x", "y"] * 100))) == 6
    assert len(labels(monitor.plot_scores(frame, list(range(200))))) == 100
    nobody = monitor.compare_many({}, {}, "footrule")
    assert labels(monitor.plot_scores(nobody)) == ["footrule, all: 0 users"]


NO_RANKS = parsed("""
    [{"rec_0": ["a", null, "c"], "rec_1": ["b", "x", null]}, "an empty cell before an item in the columns rec_0 to rec_1"]
    [{"rec_0": ["a", "a", "a"], "x_0": ["b", "b", "b"]}, "no columns rec_0"]
    [{"rec_0": ["a", "a", "a"], "user": ["u1", "u1", "u2"]}, "has user 'u1' twice"]
""")


def test_columns_that_are_no_ranks_are_refused():
    for columns, message in NO_RANKS:
        with pytest.raises(InputError, match=message):
            monitor.compare_many(pd.DataFrame({"user": list(BASE), **columns}), OTHER)


def test_a_table_of_users_splits_them_by_each_of_its_columns():
    for make in [pd.DataFrame, pa.table]:
        frame = monitor.compare_many(BASE, OTHER, "overlap")
        users = make(
            {
                "user": ["u2", "u1", "nobody"],
                "country": ["all", "DE", "all"],
                "level": [1, 1, None],
            }
        )

        found = monitor.summarize(frame, users)["n"].xs("overlap")
        assert found.to_dict() == {"all": 3, "country=DE": 1, "country=all": 1, "level=1": 2}
        with pytest.raises(InputError, match="has no columns of segments"):
            monitor.summarize(frame, make({"user": ["u1"]}))


NOTEBOOK = ROOT / "monitor/measures/frames/example.ipynb"
DRAWN = """[...document.querySelectorAll('section')].map((cell) => ({
    charts: [...cell.querySelectorAll('.slopes, svg:not(.slopes svg)')].map((svg) => svg.getBoundingClientRect().height > 60
        && [...svg.querySelectorAll('text, line, rect, li')].filter((one) => one.getBoundingClientRect().height > 3).length),
    rows: cell.querySelectorAll('tbody tr').length,
    text: cell.innerText }))"""
COLOURS = """[['#other text', 'fill'], ['.slopes .head', 'color'], ['.card', 'backgroundColor']].map(
    ([selector, name]) => getComputedStyle(document.querySelector(selector))[name])"""


def shown_by_cells(folder, patch):
    """The HTML of each cell of code, run from first to last in one kernel.

    No cell says anything else.
    """
    for kept in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        patch.setenv(kept, folder)  # not what whoever runs this has there
    # To import them takes as long as many tests of the first ring.
    nbclient, traitlets = import_module("nbclient"), import_module("traitlets.config")
    notebook = import_module("nbformat").read(NOTEBOOK, as_version=4)
    config = traitlets.Config({"KernelManager": {"transport": "ipc"}})
    nbclient.NotebookClient(notebook, timeout=300, config=config).execute()
    cells = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]
    assert [[each.output_type for each in outputs] for outputs in cells] == [
        ["execute_result"]
    ] * len(cells)
    return [output.data["text/html"] for (output,) in cells]


@pytest.mark.integration
def test_cells_of_the_example_notebook_draw_their_results_in_light_and_dark_and_ask_for_nothing_from_elsewhere(
    tmp_path, monkeypatch, chromium
):
    with TemporaryDirectory(prefix="kernel") as folder:  # the name of a socket must be short
        cells = shown_by_cells(folder, monkeypatch)
    page = tmp_path / "notebook.html"
    sections = "".join(f"<section>{html}</section>" for html in cells)
    page.write_text(
        "<!doctype html><meta charset=utf-8><title>x</title><svg "
        f"id=other><text>x</text></svg>{sections}"
    )
    colours = []
    for scheme in ("light", "dark"):
        tab = chromium.open_tab(scheme=scheme)
        tab.go(page.as_uri())
        colours.append(tab.run(COLOURS))
    pair, titled, scores, summary, spreads, worst = tab.run(DRAWN)
    told = chromium.events
    assert not [each for each in told if each["method"] in TROUBLE]
    sent = [each for each in told if each["method"] == "Network.requestWillBeSent"]
    assert {each["params"]["request"]["url"] for each in sent} == {page.as_uri()}

    # What is not ours stays black.
    assert colours == [
        ["rgb(0, 0, 0)", "rgb(27, 36, 48)", "rgb(255, 255, 255)"],
        ["rgb(0, 0, 0)", "rgb(232, 237, 243)", "rgb(26, 33, 43)"],
    ]
    for cell, count in ((pair, 1), (titled, 1), (spreads, 3), (worst, 1)):
        assert len(cell["charts"]) == count
        assert min(cell["charts"]) >= 8
    assert "extended_tau" in pair["text"]
    assert "Green tea" in titled["text"]
    assert "extended_tau, country=UK: 100 users" in spreads["text"]
    assert (scores["rows"], summary["rows"]) == (5, 9)
    assert "country=UK" in summary["text"]
