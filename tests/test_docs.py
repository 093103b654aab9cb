"""Every Python block of the README and the documentation runs as written."""

from __future__ import annotations

import os
import re
import subprocess
import sys

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


def test_the_site_builds_without_a_warning(tmp_path):
    pytest.importorskip("mkdocs", reason="the site is built by `make docs`, which installs mkdocs")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    run = subprocess.run(
        build, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "WARNING" not in run.stderr
    assert "DecentralizedRidge" in (tmp_path / "api" / "index.html").read_text()


def test_every_page_is_in_the_navigation():
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    assert pages == set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text()))


def test_every_make_target_named_is_there():
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        text = (ROOT / page).read_text()
        named = re.findall(r"`make (\w+)`", text) + re.findall(r"^make (\w+)", text, re.MULTILINE)
        assert set(named) <= targets, page
