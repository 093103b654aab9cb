"""Every block of the README and the documentation runs as written, and its tables say what the code does."""

from __future__ import annotations

import ast
import fnmatch
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import typer
from conftest import ROOT, make_data, make_problem
from mpi import DEADLINE, needs_mpi, run, started
from sklearn.datasets import dump_svmlight_file

import dsba
import dsba.estimators
from dsba import cli
from dsba.data import registry, splits
from dsba.fitting import FitSpec
from dsba.lab import spec
from dsba.lab.index import METRICS as MEASURES
from dsba.tables.mixed import RANDOM_TELLS
from dsba.tables.models import MODELS

PAGES = ["README.md", "CONTRIBUTING.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCKS = [(page, i, code) for page in PAGES for i, code in enumerate(BLOCK.findall((ROOT / page).read_text()))]


@pytest.mark.parametrize(("page", "number", "code"), BLOCKS, ids=[f"{page}-{i}" for page, i, _ in BLOCKS])
def test_block_runs(page, number, code, tmp_path, monkeypatch):
    """A block that raises fails here; blocks have assertions of their own where their result matters."""
    monkeypatch.chdir(tmp_path)
    for table in (ROOT / "docs" / "assets").glob("*.csv"):  # what a page offers to its readers
        shutil.copy(table, tmp_path)
    # a block stands alone, as when pasted; dataclasses look their module up by name
    exec(compile(code, f"{page} block {number}", "exec"), {"__name__": "__main__"})


SHELL = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
SCRIPTS = {page: [code for code in SHELL.findall((ROOT / page).read_text()) if "make " not in code] for page in PAGES}
# Pages whose commands `make full` runs.
LONG_PAGES = (
    "docs/guide.md", "docs/howto/cluster.md", "docs/howto/hospitals.md", "docs/howto/models.md", "docs/reproduction.md",
)  # fmt: skip
# What a clean checkout cannot have: a cluster's own commands, and pip, whose extras are looked up instead.
STAND_INS = {
    "module": "",
    "srun": 'exec mpiexec -n 3 "$@"',
    "pip": f'grep -q "^mpich = " {ROOT / "pyproject.toml"}',
}


@pytest.fixture
def reader(tmp_path):
    """A folder with the reader's own files, small, under the names the pages use, and an environment for it."""
    data, commands = tmp_path / "data", tmp_path / "bin"
    data.mkdir()
    commands.mkdir()
    for table in (ROOT / "docs" / "assets").glob("*.csv"):
        shutil.copy(table, tmp_path)
    names = [f"site{n}.svm" for n in range(3)] + ["new.svm"]
    names += [f"data/{name}" for name in ("a9a", "rcv1_train.binary", "news20.binary", "news20", "reuters-moneyfx.trn")]
    for seed, name in enumerate(names):
        dump_svmlight_file(*make_data("logistic", columns=40, seed=seed), str(tmp_path / name), zero_based=False)
    for name, body in STAND_INS.items():
        (commands / name).write_text(f"#!/bin/sh\n{body}\n")
        (commands / name).chmod(0o755)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "activate").touch()
    path = os.pathsep.join([str(commands), str(Path(sys.executable).parent), os.environ["PATH"]])
    return {"cwd": tmp_path, "env": {**os.environ, "PATH": path, "DSBA_DATA": str(data), "HOME": str(tmp_path)}}


@needs_mpi
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.full] * (page in LONG_PAGES))
        for page, scripts in SCRIPTS.items()
        if scripts
    ],
)
def test_commands_run(page, reader):
    """In order, in one folder; a reproduction, which takes minutes, until the first pieces of its plan are done."""
    for script in SCRIPTS[page]:
        long = re.findall(r"^dsba reproduce(?:.*\\\n)*.*", script, re.MULTILINE)
        for command in long:
            _begun(command, reader)
            script = script.replace(command, "")
        code, text = run("bash", "-ec", script, **reader)
        assert code == 0, f"{script}\n{text}"


R_BLOCK = re.compile(r"^```r\n(.*?)^```", re.MULTILINE | re.DOTALL)
# Other blocks of R show what R has beside a line of ours.
R_SCRIPTS = [code for page in PAGES for code in R_BLOCK.findall((ROOT / page).read_text()) if "system2" in code]


@pytest.mark.full
@pytest.mark.skipif(not shutil.which("Rscript"), reason="there is no Rscript: install R with the package jsonlite")
@pytest.mark.parametrize("script", R_SCRIPTS)
def test_a_script_of_r_runs(script, reader):
    """A script stops where its model is not that of R; a command that fails stops it with the command's sentence."""
    code, _ = run("Rscript", "-e", "library(jsonlite)")
    if code:
        pytest.skip("R has no package jsonlite")
    code, text = run("Rscript", "--vanilla", "-e", script, **reader)
    assert code == 0, text
    assert "conf.high" in text
    code, text = run("Rscript", "--vanilla", "-e", f"{script}\ndsba_train(hospitals, readmitted ~ agee)", **reader)
    assert code == 1
    assert "aarhus has no column 'agee'; did you mean 'age'?" in text


def test_the_page_for_people_with_r_has_one():
    assert len(R_SCRIPTS) == 1


def _begun(command, reader):
    with started("bash", "-c", f"exec {command}", **reader) as process:
        seen = ""
        while ": done" not in seen and (line := process.stdout.readline()):
            seen += line
        assert ": done" in seen, f"{command}\n{seen}"
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=DEADLINE)
        assert process.returncode == 130


def rows_of(page, header):
    """The rows of the table with this header, as lists of cells."""
    lines = (ROOT / page).read_text().splitlines()
    start = lines.index(header) + 2
    end = next(i for i in range(start, len(lines) + 1) if i == len(lines) or not lines[i].startswith("|"))
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[start:end]]


def code_in(text):
    return re.findall(r"`([^`]+)`", text)


TELLS = "| model | beside these |"


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("strata", ["site", None])
def test_the_privacy_page_says_what_every_model_tells(name, strata):
    """In the words that the model declares, which a person reads before a study begins."""
    model = MODELS[name](FitSpec(formula="y ~ x", operator=name, strata=strata), 3)
    kind = "strata=" + ('"site"' if strata else "None")
    rows = [said for models, said in rows_of("docs/privacy.md", TELLS) if name in code_in(models)
            and ("strata" not in models or kind in code_in(models))]  # fmt: skip
    assert rows == [model.tells()]


def test_the_privacy_page_says_what_other_analyses_tell():
    rows = rows_of("docs/privacy.md", TELLS)
    named = {name for models, _ in rows for name in code_in(models)}
    others = {"linear", "logistic", "poisson", "survival_curve", "elastic_net", "by_site", "meta", "baseline_hazard"}
    assert others | {"proportional_hazards_test"} <= named
    assert next(said for models, said in rows if 'random="site"' in models) == RANDOM_TELLS


METHODS = '| name | applies to | one iteration | "auto" step size |'


def test_the_guide_has_a_line_for_every_method():
    named = [name for row in rows_of("docs/guide.md", METHODS) for name in code_in(row[0])]
    assert sorted(named) == sorted(dsba.algorithms.names())


# What the last column of the table of methods says. f has the numbers that stand in it: L of full-gradient methods, Lc
# of a component, both without lam.
STEP_SIZES = {
    "newton": ("1, shortened where the objective rises", lambda f: 1.0),
    "extra": (r"$0.8 (5 + 3 \lambda_{\min}(W))/(4 L)$", lambda f: 0.8 * (5 + 3 * f.w_min) / (4 * (f.L + f.lam))),
    "dlm": (r"$\rho = 3L/4$, $c = \rho/(4 \, \deg)$", lambda f: 4 / (3 * (f.L + f.lam))),
    "ssda": (r"the paper's $\mu/\lambda_{\max}(I - W)$; for MSDA of the Chebyshev polynomial",
             lambda f: f.lam / (1 - f.w_min)),
    "p-extra": (r"$2\sqrt{\gamma/(\mu L)}$", lambda f: 2 * math.sqrt(f.gamma / (f.lam * f.L))),
    "d-admm": (r"$c = \sqrt{\mu L/(4 \, \deg \, \ell)}$", lambda f: math.sqrt(f.lam * f.L / (4 * f.degree * f.ell))),
    "pg-extra": ("EXTRA's", lambda f: 0.8 * (5 + 3 * f.w_min) / (4 * (f.L + f.lam))),
    "nids": ("$1/L$", lambda f: 1 / (f.L + f.lam)),
    "apapc": (r"$\eta = 1/(4 \tau L)$, $\tau = \min(1, \sqrt{\chi \mu/L}/2)$",
              lambda f: 1 / (4 * min(1, math.sqrt(f.chi * f.lam / (f.L + f.lam)) / 2) * (f.L + f.lam))),
    "diging": ("$1/(4L)$", lambda f: 1 / (4 * (f.L + f.lam))),
    "exact-diffusion": ("$1/L$", lambda f: 1 / (f.L + f.lam)),
    "proxskip": ("$1/L$", lambda f: 1 / (f.L + f.lam)),
    "lt-admm": ("$1/(2L)$", lambda f: 1 / (2 * (f.L + f.lam))),
    "acc-gt": ("$1/L$", lambda f: 1 / (f.L + f.lam)),
    "adom-plus": (r"$1/\sqrt{\mu L}$", lambda f: 1 / math.sqrt(f.lam * (f.L + f.lam))),
    "extragradient": (r"$\sqrt{\gamma}/(2L)$", lambda f: math.sqrt(f.gamma) / (2 * (f.L + f.lam))),
    "pmgt-saga": ("$1/(3L)$", lambda f: 1 / (3 * (f.Lc + f.lam))),
    "gt-saga": ("$1/(3L)$", lambda f: 1 / (3 * (f.Lc + f.lam))),
    "lead": ("$1/L$", lambda f: 1 / (f.L + f.lam)),
    "acc-vr-extra": (r"$1/(3 \max(L_{\text{local}}, L/b))$",
                     lambda f: 1 / (3 * max(f.L + f.lam, (f.Lc + f.lam) / f.b))),
    "dvr": (r"$\rho = q/(q + L/\lambda)$", lambda f: f.q / (f.q + f.Lc / f.lam)),
    "vi-papc": (r"$\min(1, 2/\sqrt{\chi})/(3L)$", lambda f: min(1, 2 / math.sqrt(f.chi)) / (3 * (f.L + f.lam))),
    "vi-papc-vr": (r"$\min(1/(3 L_{\text{local}}), 1.5 b/\sqrt{q L L_{\text{local}}})$",
                   lambda f: min(1 / (3 * (f.L + f.lam)),
                                 1.5 * f.b / math.sqrt(f.q * (f.Lc + f.lam) * (f.L + f.lam)))),
    "network-newton": (r"$\gamma/(10 L)$", lambda f: f.gamma / (10 * (f.L + f.lam))),
    "d-bfgs": ("as `network-newton`", lambda f: f.gamma / (10 * (f.L + f.lam))),
    "dual-rbcd": (r"$\lambda/2$", lambda f: f.lam / 2),
    "dgd": (r"$\lambda_{\min}(\tilde{W})/L$", lambda f: (1 + f.w_min) / 2 / (f.L + f.lam)),
    "dual-averaging": ("$2/L$", lambda f: 2 / (f.L + f.lam)),
}  # fmt: skip


def test_the_step_sizes_of_the_guide_are_those_of_the_code():
    problem, topology = make_problem(n_nodes=6), dsba.Topology.ring(6)
    cells = {name: row[3] for row in rows_of("docs/guide.md", METHODS) for name in code_in(row[0])}
    for name, (cell, formula) in STEP_SIZES.items():
        method = dsba.algorithms.get(name).resolved(problem, topology)
        facts = SimpleNamespace(
            L=problem.local_smoothness.max(), Lc=problem.constants.L_plan, lam=problem.lam, q=problem.sizes.max(),
            gamma=topology.gamma, w_min=2 * topology.eigenvalues[-1] - 1, degree=2, ell=topology.graph.connectivity,
            chi=(1 - topology.eigenvalues[-1]) / topology.gamma,
            b=getattr(method, "batch_size", 1),
        )  # fmt: skip
        assert cells[name] == cell, name
        assert method.alpha == pytest.approx(formula(facts), rel=1e-12), name


def test_the_methods_apply_where_the_guide_says():
    made = {("auc", n): make_problem("auc", n_nodes=n) for n in (1, 4)}
    made |= {("objective", n): make_problem("logistic", n_nodes=n) for n in (1, 4)}
    made |= {("no lambda", 4): make_problem("logistic", n_nodes=4, lam=0.0)}
    for row in rows_of("docs/guide.md", METHODS):
        kind = next(kind for kind in ("strongly convex", "objectives", "AUC", "all", "N = 1") if kind in row[1])
        fits = {
            "auc": kind in ("all", "AUC", "N = 1"),
            "objective": kind != "AUC",
            "no lambda": kind not in ("AUC", "strongly convex"),
        }
        for name in code_in(row[0]):
            for (problem, n), what in made.items():
                here = fits[problem] and not ("N = 1" in row[1] and n > 1) and not ("N > 1" in row[1] and n == 1)
                net = dsba.Simulator(dsba.Topology.path(n))
                assert (dsba.algorithms.get(name).why_not(what, net) is None) == here, f"{name}, {problem}, N = {n}"


def test_the_methods_with_a_penalty_are_named():
    text = (ROOT / "docs" / "guide.md").read_text()
    (sentence,) = re.findall(r"never on an intercept\. ([^.]*) take it\.", text)
    assert set(code_in(sentence)) == {name for name, method in dsba.algorithms.REGISTRY.items() if method.composite}


def test_the_guide_has_a_line_for_every_operator():
    words = {"binary": "two classes", "multiclass": "two or more classes", "count": "counts", "real": "numbers"}
    rows = rows_of("docs/guide.md", "| name | labels | loss of a sample with score $u$ and label $y$ |")
    assert [code_in(row[0])[0] for row in rows] == dsba.operators.names()
    for row in rows:
        first, *aliases = code_in(row[0])
        assert words[dsba.operators.get(first).labels] == row[1], first
        for alias in aliases:
            assert type(dsba.operators.get(alias)) is dsba.operators.REGISTRY[first]


def test_the_columns_of_a_history_are_explained():
    named = [name for row in rows_of("docs/guide.md", "| column | meaning |") for name in code_in(row[0])]
    problem, ring = make_problem(), dsba.Topology.ring(4)
    found = dsba.solve(problem, ring, "dgd", max_passes=1, reference=np.zeros(problem.dim)).history.columns
    assert set(found) - {"iteration"} == set(named) - {"auc"}


def test_the_first_page_names_every_estimator_and_every_common_parameter():
    page = "docs/index.md"
    estimators = [name for name in dsba.estimators.__all__ if name != "Decentralized"]
    named = rows_of(page, "| estimator | finds the model of scikit-learn's |")
    assert sorted(name for row in named for name in code_in(row[0])) == sorted(estimators)
    parameters = [name for row in rows_of(page, "| parameter | meaning |") for name in code_in(row[0])]
    assert sorted(parameters) == sorted(field.name for field in fields(dsba.estimators.Decentralized))


def test_what_may_be_given_to_an_experiment_is_taken():
    rows = {row[0]: row[1:] for row in rows_of("docs/howto/paper.md", "| | by name (TOML) | as an object (Python) |")}
    named = [name for name in code_in(rows["metrics"][0]) if name.isidentifier() and name != "test_"]
    assert sorted([*named, *(f"test_{name}" for name in named[-4:])]) == sorted(MEASURES)
    assert code_in(rows["splits"][0]) == [*splits.EXAMPLES, ".npy"]
    penalty, *others = (name for name in code_in(rows["problem"][0]) if "l1" in name or name in dsba.penalties.REGISTRY)
    assert [tomllib.loads(penalty)["penalty"]["name"], *others] == list(dsba.penalties.REGISTRY)
    arrays = {"X", "y", "X_test", "y_test"}
    for table, known in (("data", arrays), ("problem", others), ("network", ()), ("method", ())):
        fields = spec.Experiment.model_fields[table].annotation.__args__[0].model_fields
        keys = {found[1] for code in code_in(" ".join(rows[table])) if (found := re.match(r"(\w[\w-]*)( = |$)", code))}
        assert keys, table
        assert keys <= {*fields, *known}, table


def test_the_files_of_a_results_folder_are_listed(tmp_path):
    (tmp_path / "mine.py").write_text("def size(z, X, y):\n    return float(abs(z).max())\n")
    small = {
        "stop": {"max_passes": 2}, "data": [{"name": "breast-cancer"}], "problem": [{"operator": "ridge"}],
        "network": [{"graph": "ring", "n_nodes": 3}], "method": [{"algorithm": "extra"}],
        "metrics": ["gap", f"{tmp_path / 'mine.py'}:size"],
    }  # fmt: skip
    dsba.lab.run(small, tmp_path / "out", workers=1)
    found = {path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    listed = set()
    for row in rows_of("docs/guide.md", "| file | content |"):
        for name in code_in(row[0]):
            pattern = f"{name}*" if name.endswith("/") else f"*{name.lstrip('*')}" if "*" in name else name
            listed |= (here := set(fnmatch.filter(found, pattern.replace("ID", "*"))))
            assert here, f"no run makes {name}"
    assert found - listed == {".dsba-results"}


WAYS = [*dsba.algorithms.names(), "dsba sparse", "dsba cached", "dsa sparse", "dsa cached"]


@pytest.mark.parametrize("way", WAYS)
def test_the_disclosure_classes_are_those_of_the_code(way):
    rows = {code_in(row[0])[0]: row[1] for row in rows_of("docs/privacy.md", "| class | ways to learn |")}
    named = {name: kind for kind, cell in rows.items() for name in code_in(cell)}
    assert set(named) <= set(WAYS)
    assert rows["iterates"] == "all other methods"
    method, *communication = way.split()
    options = {"communication": communication[0]} if communication else {}
    assert dsba.algorithms.get(method, **options).discloses == named.get(way, "iterates")


def options_of(command):
    """All options of a command line and of the commands below it."""
    own = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    return own.union(*map(options_of, getattr(command, "commands", {}).values()))


def test_every_option_named_is_there():
    known = options_of(typer.main.get_command(cli.app)) | {"--help"}
    for page in PAGES:
        text = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(), flags=re.MULTILINE | re.DOTALL)
        named = {option for code in code_in(text) for option in re.findall(r"(?<![\w-])--[a-z][\w-]*", code)}
        assert named <= known, page


def test_the_numbers_of_checksums_are_those_of_the_registry():
    entries = registry.REGISTRY.values()
    recorded = sum(entry.checksum is not None for entry in entries)
    assert f"one: {recorded} of {len(entries)} so far" in (ROOT / "docs" / "guide.md").read_text().replace("\n", " ")


def test_the_architecture_names_every_part_and_nothing_else():
    home = ROOT / "src" / "dsba"
    parts = [code_in(row[0]) for row in rows_of("docs/architecture.md", "| part | knows | must not know |")]
    named = {home / name for names in parts for name in names}
    folders = {path.parent for path in home.rglob("__init__.py")} - {home}
    top = {path for path in home.glob("*.py") if not path.name.startswith("_")}
    assert named == folders | top


def defined_in(tree, before=""):
    """The names of functions and classes, and of those inside of classes."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield before + node.name
        if isinstance(node, ast.ClassDef):
            yield from defined_in(node, f"{node.name}.")


def test_the_walks_name_what_is_there():
    home = ROOT / "src" / "dsba"
    text = (ROOT / "docs" / "architecture.md").read_text().partition("## Four walks")[2].partition("\n## ")[0]
    hops = [hop.partition(": ") for hop in code_in(text) if "/" in hop]
    assert len(hops) > 30
    missing = [path for path, _, _ in hops if not (home / path).exists()]
    missing += [
        f"{path}: {name}" for path, _, name in hops
        if name and name not in defined_in(ast.parse((home / path).read_text()))
    ]  # fmt: skip
    assert not missing


def anchors(page):
    """The names by which MkDocs and GitHub know the headings of a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)", text, re.MULTILINE)
    return {
        re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading, flags=re.ASCII).strip().lower()) for heading in headings
    }


def test_no_page_installs_a_package_that_is_not_published():
    """``pip install dsba`` would find nothing, or somebody else's package: a clone or a wheel is installed."""
    told = [(page, line) for page in PAGES for line in re.findall(r"pip install[^`\n]*", (ROOT / page).read_text())]
    assert len(told) > 3
    assert not [(page, line) for page, line in told if re.search(r"\bdsba\b(?!-|/)", line)]


def test_links_lead_somewhere():
    for page in PAGES:
        for target, _, anchor in re.findall(r"\]\(([^)#:\s]*)(#([^)\s]+))?\)", (ROOT / page).read_text()):
            there = (ROOT / page).parent / target if target else ROOT / page
            assert there.exists(), f"{page} links to {target}"
            assert not anchor or anchor in anchors(there), f"{page} links to {target}#{anchor}"


def test_the_site_builds_without_a_warning(tmp_path):
    pytest.importorskip("mkdocs", reason="the site is built by `make docs`, which installs mkdocs")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    run = subprocess.run(
        build, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "WARNING" not in run.stderr
    assert "DecentralizedRidge" in (tmp_path / "api.html").read_text()
    pages = {page: page.read_text() for page in tmp_path.rglob("*.html")}
    assert "<math" in pages[tmp_path / "concepts.html"]
    assert "<p>table : pandas" not in pages[tmp_path / "api.html"], "the docstring of dsba.fit is not parsed"
    assert '</span> - <span title="like">' not in pages[tmp_path / "api.html"], "path-like is shown as a difference"
    assert pages[tmp_path / "guide.html"].count("<msqrt><mspace") == pages[tmp_path / "guide.html"].count("<msqrt>") > 0
    for page, text in pages.items():
        assert "arithmatex" not in text, f"{page} has a formula that is not typeset"
        scrolling = text.count('<div class="formula"><math')
        assert text.count('display="block"') == scrolling, f"{page} has a formula wider than a phone"
    media = re.findall(r'data-md-color-media="(.*?)"', pages[tmp_path / "index.html"])
    assert media[0] == "(prefers-color-scheme)", "after the first visit the colours would not follow the system"
    assert len(media) == 3


def test_every_page_is_in_the_navigation():
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    assert pages == set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text()))


def test_every_picture_is_made_by_a_script_or_a_block():
    makers = "".join((ROOT / "docs" / name).read_text() for name in ("pictures.py", "howto/models.md"))
    pictures = [path.name for path in (ROOT / "docs" / "images").iterdir()]
    assert [name for name in pictures if f'"{name}"' not in makers] == []


def test_every_make_target_named_is_there():
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        text = (ROOT / page).read_text()
        named = re.findall(r"`make (\w+)`", text) + re.findall(r"^make (\w+)", text, re.MULTILINE)
        assert set(named) <= targets, page
