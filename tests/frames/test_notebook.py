"""The example notebook in a real kernel, and what its cells show in Chromium."""

from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
import pytest
from nbclient import NotebookClient
from traitlets.config import Config

from servers.chromium import TROUBLE, browsing

NOTEBOOK = Path(__file__).parents[2] / "monitor/frames/example.ipynb"
DRAWN = """[...document.querySelectorAll('section')].map((cell) => ({
    charts: [...cell.querySelectorAll('svg')].map((svg) => svg.getBoundingClientRect().height > 60
        && [...svg.querySelectorAll('text, line, rect')].filter((one) => one.getBoundingClientRect().height > 3).length),
    rows: cell.querySelectorAll('tbody tr').length,
    text: cell.innerText }))"""


def shown_by_cells(folder: str, patch: pytest.MonkeyPatch) -> list[str]:
    """The HTML of each cell of code, run from first to last in one kernel; no cell says anything else."""
    for kept in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        patch.setenv(kept, folder)  # not what whoever runs this has there
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=300, config=Config({"KernelManager": {"transport": "ipc"}})).execute()
    cells = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]
    assert [[each.output_type for each in outputs] for outputs in cells] == [["execute_result"]] * len(cells)
    return [output.data["text/html"] for (output,) in cells]


def test_cells_of_the_example_notebook_draw_their_results_and_ask_for_nothing_from_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with TemporaryDirectory(prefix="kernel") as folder:  # the name of a socket must be short
        cells = shown_by_cells(folder, monkeypatch)
    page = tmp_path / "notebook.html"
    sections = "".join(f"<section>{html}</section>" for html in cells)
    page.write_text(f"<!doctype html><meta charset=utf-8><title>cells</title>{sections}", encoding="utf-8")
    with browsing() as browser:
        tab = browser.open_tab()
        tab.go(page.as_uri())
        pair, titled, scores, summary, spreads, worst = tab.run(DRAWN)
        told = browser.events
    assert [each for each in told if each["method"] in TROUBLE] == []
    asked = {each["params"]["request"]["url"] for each in told if each["method"] == "Network.requestWillBeSent"}
    assert asked == {page.as_uri()}

    assert [len(each["charts"]) for each in (pair, titled, spreads, worst)] == [1, 1, 3, 1]
    assert all(marks >= 8 for each in (pair, titled, spreads, worst) for marks in each["charts"])
    assert "extended_tau" in pair["text"]
    assert "Green tea" in titled["text"]
    assert "extended_tau, country=UK: 100 users" in spreads["text"]
    assert (scores["rows"], summary["rows"]) == (5, 9)
    assert "country=UK" in summary["text"]
