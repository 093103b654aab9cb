"""The package as it is built and installed, without the checkout, on every Python that is here.

The newest dependencies are tried on each of them, and the oldest ones that pyproject.toml allows on the oldest
Python: there the suites of all methods and transports run, too.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from conftest import ROOT
from test_mpi import make_sites

from dsba import __version__

pytestmark = pytest.mark.full

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OLDEST = re.search(r"3\.\d+", PROJECT["requires-python"])[0]


def interpreter(version):
    """A Python of this version that runs, on the path or among pyenv's, or None. A shim of pyenv's may not run."""
    own = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"))
    for found in (shutil.which(f"python{version}"), *own):
        if found and subprocess.run([found, "--version"], capture_output=True, timeout=60).returncode == 0:
            return found
    return None


PYTHONS = {
    version: found
    for minor in range(int(OLDEST.partition(".")[2]), 20)
    if (found := interpreter(version := f"3.{minor}")) is not None
}
NEWEST = [pytest.param(version, False, id=f"{version}-newest") for version in PYTHONS]
LOWEST = [pytest.param(version, True, id=f"{version}-lowest") for version in PYTHONS if version == OLDEST]

SUITES = [
    "algorithms/test_convergence",
    "algorithms/test_newton",
    "data/test_table_files",
    "estimators/test_estimators",
    "network/test_transports",
    "tables/test_inference",
    "tables/test_table_refusals",
    "tables/test_tables",
]
TOOLS = ("pytest", "hypothesis", "psutil", "statsmodels", "pandas")  # what those suites need beside the package
COMPARISON = """
stop = { max_passes = 2 }
data = [{ name = "breast-cancer" }]
problem = [{ operator = "ridge" }]
method = [{ algorithm = "dsba", step_size = "auto" }, { algorithm = "extra", step_size = "auto" }]
"""


def call(*command, code=0, **options):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=1800, **options)
    assert done.returncode == code, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    pytest.importorskip("setuptools", minversion="77", reason="the wheel is built without a network, by what is here")
    folder = tmp_path_factory.mktemp("wheel")
    build = ("pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder)
    call(sys.executable, "-m", *build, ".", cwd=ROOT)
    (built,) = folder.glob("dsba-*.whl")
    return built


def test_the_wheel_has_every_file_of_the_package(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    package = [
        path for path in (ROOT / "src" / "dsba").rglob("*") if path.is_file() and "__pycache__" not in path.parts
    ]
    assert {str(path.relative_to(ROOT / "src")) for path in package} <= names
    described = [name for name in names if not name.startswith("dsba/")]
    assert {name.partition("/")[0].removesuffix(".dist-info") for name in described} == {f"dsba-{__version__}"}


def test_the_wheel_has_its_licence(wheel):
    archive = zipfile.ZipFile(wheel)
    about = f"dsba-{__version__}.dist-info"
    metadata = archive.read(f"{about}/METADATA").decode()
    assert f"License-Expression: {PROJECT['license']}\n" in metadata
    assert archive.read(f"{about}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()


def lowest():
    """Every dependency that names a lowest version, held to it: ``numpy>=2.0`` as ``numpy==2.0.*``."""
    wanted = [*PROJECT["dependencies"], *(w for some in PROJECT["optional-dependencies"].values() for w in some)]
    found = {m[1]: m[2] for w in wanted if (m := re.match(r"([\w-]+)>=([\d.]+)", w)) and m[1] not in ("setuptools",)}
    return "".join(f"{name}=={version}.*\n" for name, version in found.items())


def installed(version, low, wheel, folder):
    """The ``bin`` folder of an environment that has the wheel and nothing of the checkout."""
    call(PYTHONS[version], "-m", "venv", folder / "venv")
    constraints = folder / "constraints.txt"
    constraints.write_text(lowest() if low else "")
    pip = (folder / "venv" / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    call(*pip, "-c", constraints, f"dsba[tables,parquet,lab] @ {wheel.as_uri()}", *TOOLS)
    return folder / "venv" / "bin"


@pytest.mark.parametrize(("version", "low"), [*NEWEST, *LOWEST])
def test_the_wheel_runs_without_the_checkout(version, low, wheel, tmp_path):
    bin = installed(version, low, wheel, tmp_path)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    environment |= {"NUMBA_CACHE_DIR": str(tmp_path / "kernels"), "HOME": str(tmp_path), "PATH": f"{bin}:/usr/bin:/bin"}
    here = {"cwd": tmp_path, "env": environment}
    where = call("python", "-c", "import dsba; print(dsba.__file__)", **here)
    assert Path(where.strip()).is_relative_to(tmp_path)
    assert "train" in call("dsba", "--help", **here)
    (tmp_path / "small.toml").write_text(COMPARISON)
    call("dsba", "compare", "small.toml", "--out", "comparison", **here)
    assert (tmp_path / "comparison" / "report.html").exists()
    call("dsba", "train", *make_sites(tmp_path), "--max-passes", "3", "--out", "run", code=3, **here)
    assert (tmp_path / "run" / "model.dsba").exists()
    if low or version != OLDEST:  # the newest versions on the oldest Python are what the other tests run on
        suites = [ROOT / "tests" / f"{suite}.py" for suite in SUITES]
        call("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *suites, **here | {"cwd": ROOT})
