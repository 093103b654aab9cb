"""The example notebook runs from top to bottom, as a newcomer would run it."""

from __future__ import annotations

import pytest
from conftest import ROOT


@pytest.mark.full
def test_the_notebook_runs(tmp_path):
    nbclient = pytest.importorskip("nbclient")
    import nbformat

    notebook = nbformat.read(ROOT / "examples" / "compare_methods.ipynb", as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    )
    client.execute()
    printed = "".join(o.get("text", "") for cell in notebook.cells for o in cell.get("outputs", []))
    assert printed.count("in the fewest passes by DS") == 2
    assert (tmp_path / "notebook-results" / "report.html").exists()
