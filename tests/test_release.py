"""What a release promises beside the code: extras, locked versions, linters, citation, files for a site."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from io import BytesIO

import pytest
from conftest import ROOT

import dsba

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
OF_MAKERS = ("dev", "docs", "release")
MOST_DEPENDENCIES = 9


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / ".ci" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def names(requirements):
    return {re.match(r"[\w-]+", one)[0] for one in requirements} - {"dsba"}


def test_the_core_needs_few_packages():
    assert len(PROJECT["dependencies"]) <= MOST_DEPENDENCIES
    assert not names(PROJECT["dependencies"]) & {
        "pandas",
        "pyarrow",
        "matplotlib",
        "plotly",
        "networkx",
        "scikit-learn",
    }


def test_the_page_lists_the_extras_and_what_they_bring():
    rows = re.findall(r"^\| `(\w+)` \| .* \| (.*) \|$", (ROOT / "docs" / "installation.md").read_text(), re.MULTILINE)
    shown = {extra: set(re.sub(r"the extra \w+, ", "", brings).split(", ")) for extra, brings in rows}
    assert shown == {extra: names(wanted) for extra, wanted in EXTRAS.items() if extra not in OF_MAKERS}


@pytest.mark.parametrize(
    ("lock", "extras"), [("requirements.lock", ["dev"]), ("docs/requirements.lock", ["docs", "release"])]
)
def test_every_package_is_locked_with_hashes(lock, extras):
    text = (ROOT / lock).read_text()
    pinned = re.findall(r"^([\w.-]+)==", text, re.MULTILINE)
    assert len(pinned) == len(re.findall(r"^[\w.-]+==.*\\\n    --hash=sha256:", text, re.MULTILINE))
    assert "://" not in text
    wanted = [*PROJECT["dependencies"], *(one for extra in extras for one in EXTRAS[extra])]
    assert names(wanted) <= set(pinned)


def test_the_hooks_before_a_commit_are_the_linters_of_make():
    hooks = re.findall(r"entry: \.venv/bin/(.*?), language", (ROOT / ".pre-commit-config.yaml").read_text())
    recipe = re.search(r"^lint:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)[1]
    assert hooks == re.findall(r"\$\(BIN\)/(.*)", recipe)


def test_the_citation_is_of_this_version():
    version = re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)[1]
    assert version == dsba.__version__


def test_the_page_installs_the_wheel_of_this_version():
    wheels = re.findall(r"dsba-(\d[\w.]*)-py3", (ROOT / "docs" / "installation.md").read_text())
    assert wheels
    assert set(wheels) == {dsba.__version__}


def test_addresses_on_the_internet_stand_in_one_place():
    """Examples and names of formats are no addresses that anything is taken from."""
    files = [*(ROOT / "src").rglob("*.py"), *ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "pyproject.toml"]
    found = {
        path.name
        for path in [*files, *ROOT.glob("*.cff"), *(ROOT / ".github").rglob("*.yml")]
        for host in re.findall(r"https?://([\w.-]+\w)", path.read_text())
        if host not in ("www.w3.org", "127.0.0.1", "10.0.0.7")
    }
    assert found == {"registry.py"}


def test_workflows_and_templates_are_yaml():
    yaml = pytest.importorskip("yaml")
    for path in [*ROOT.glob(".github/**/*.yml"), ROOT / "CITATION.cff", ROOT / ".pre-commit-config.yaml"]:
        assert yaml.safe_load(path.read_text())


def test_the_unit_and_the_container_run_commands_that_exist():
    unit = (ROOT / "deploy" / "dsba-site.service").read_text()
    command = re.search(r"^ExecStart=\S+/dsba (.*)$", unit, re.MULTILINE)[1].split()
    help = subprocess.run(
        [sys.executable, "-m", "dsba", *command[:2], "--help"], capture_output=True, text=True, timeout=300, check=True
    ).stdout
    assert all(word in help for word in command if word.startswith("--"))
    entry = re.search(r"^ENTRYPOINT (.*)$", (ROOT / "deploy" / "Containerfile").read_text(), re.MULTILINE)[1]
    assert json.loads(entry) == ["dsba", *command[:2]]


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze")
def test_systemd_takes_the_unit_and_finds_it_closed(tmp_path):
    """Every key is one that systemd knows, and of its exposure, from 0 to 10, the unit has at most 3."""
    unit = tmp_path / "dsba-site.service"
    unit.write_text((ROOT / "deploy" / unit.name).read_text().replace("/opt/dsba/bin/dsba", "/bin/true"))

    def analyze(*words):
        return subprocess.run(["systemd-analyze", *words, unit], capture_output=True, text=True, timeout=300)

    complaints = analyze("verify", "--man=no").stderr  # also about units of this machine
    assert [line for line in complaints.splitlines() if unit.name in line] == []
    ended = analyze("security", "--offline=true", "--threshold=30")
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_list_of_packages_has_what_users_install():
    listed = script("sbom").sbom((ROOT / "requirements.lock").read_text())
    found = {one["name"].lower().replace("_", "-"): one for one in listed["components"]}
    wanted = names(
        [*PROJECT["dependencies"], *(one for extra in EXTRAS if extra not in OF_MAKERS for one in EXTRAS[extra])]
    )
    assert wanted <= set(found)
    assert "pytest" not in found
    assert all(one["hashes"] and one["licenses"] for one in found.values())


def archive(time, mode):
    content = BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as file:
        member = tarfile.TarInfo("dsba/README")
        member.size, member.mtime, member.mode = 3, time, mode
        file.addfile(member, BytesIO(b"abc"))
    return content.getvalue()


def wheel(mode):
    content = BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        member = zipfile.ZipInfo("dsba/__init__.py")
        member.external_attr = (stat.S_IFREG | mode) << 16
        file.writestr(member, b"abc")
    return content.getvalue()


def test_archives_do_not_depend_on_when_and_under_which_umask_they_were_made():
    repack = script("repack")
    assert archive(1, 0o600) != archive(2, 0o664)
    assert repack.repacked(archive(1, 0o600), 5) == repack.repacked(archive(2, 0o664), 5)
    assert wheel(0o600) != wheel(0o664)
    assert repack.rezipped(wheel(0o600)) == repack.rezipped(wheel(0o664))
    (member,) = zipfile.ZipFile(BytesIO(repack.rezipped(wheel(0o700)))).infolist()
    assert stat.filemode(member.external_attr >> 16) == "-rwxr-xr-x"


def test_a_missing_extra_is_named_before_anything_runs(monkeypatch, tmp_path):
    monkeypatch.setattr("dsba.errors.find_spec", lambda name: None)
    method = {"algorithm": "dgd", "step_size": "auto"}
    experiment = {"data": [{"name": "synthetic-text"}], "problem": [{"operator": "ridge"}], "method": [method]}
    with pytest.raises(dsba.InputError, match=r"needs the package matplotlib: install dsba\[lab\]"):
        dsba.lab.run(experiment, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(dsba.InputError, match=r"install dsba\[lab\]"):
        dsba.Topology.ring(3).to_networkx()


NOT_FOUND = """
import importlib.util as util
find = util.find_spec
util.find_spec = lambda name, *package: None if name == "sklearn" else find(name, *package)
"""
WITHOUT_SKLEARN = """
import dsba
from dsba.fitting import not_converged

try:
    dsba.DecentralizedRidge
except dsba.InputError as error:
    print(error)
try:
    dsba.data.load("breast-cancer")
except dsba.InputError as error:
    print(error)
print(dsba.load_libsvm("small.svm").X.shape, not_converged.category().__name__)
"""


def test_without_scikit_learn_the_extra_is_named_and_the_rest_works(tmp_path):
    (tmp_path / "sklearn.py").write_text("raise ImportError('not installed')")
    (tmp_path / "sitecustomize.py").write_text(NOT_FOUND)
    (tmp_path / "small.svm").write_text("1 1:2.5 3:1\n-1 2:1\n")
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    environment = os.environ | {"PYTHONPATH": paths, "HOME": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT_SKLEARN],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.stdout.splitlines() == [
        "an estimator needs the package sklearn: install dsba[estimators].",
        "the data set breast-cancer needs the package sklearn: install dsba[estimators].",
        "(2, 3) NotConvergedWarning",
    ], ended.stderr


def test_every_version_of_the_changelog_has_the_same_parts():
    """Added, Changed, Fixed, Removed: in this order, each at most once, and no line outside of them."""
    text = (ROOT / "CHANGELOG.md").read_text()
    for version in text.split("\n## ")[1:]:
        before, *parts = version.split("\n### ")
        assert before.count("\n") <= 1
        titles = [part.partition("\n")[0] for part in parts]
        assert titles == [one for one in ("Added", "Changed", "Fixed", "Removed") if one in titles]
    assert max(map(len, text.splitlines())) <= 128
