"""Every Python block of the README and the documentation runs as written."""

from __future__ import annotations

import re

import pytest
from conftest import ROOT

PAGES = ["README.md", "CONTRIBUTING.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCKS = [(page, i, code) for page in PAGES for i, code in enumerate(BLOCK.findall((ROOT / page).read_text()))]


@pytest.mark.parametrize(("page", "number", "code"), BLOCKS, ids=[f"{page}-{i}" for page, i, _ in BLOCKS])
def test_block_runs(page, number, code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # a block stands alone, as when pasted; dataclasses look their module up by name
    exec(compile(code, f"{page} block {number}", "exec"), {"__name__": "__main__"})


def test_links_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / page).read_text()):
            assert ((ROOT / page).parent / target).exists(), f"{page} links to {target}"
