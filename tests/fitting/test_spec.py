"""One specification of a fit: ``dsba.fit``, ``dsba train`` and a study file take the same options, to the bit."""

from __future__ import annotations

import inspect
import re
import tomllib

import pytest
from hospital_tables import hospitals
from typer.testing import CliRunner

import dsba
from dsba.cli import app
from dsba.fitting.disclosure import Guards
from dsba.fitting.spec import FOR_ARRAYS, OPTIONS, FitSpec
from dsba.study.file import ELSEWHERE, load
from dsba.study.trial import TRIAL_FILE, arrange
from dsba.tables.fit import train

COST = {"formula": "cost ~ age", "operator": "linear"}
VISITS = {"formula": "visits ~ age", "operator": "poisson"}
OUTCOME = {"formula": "outcome ~ age + C(sex)"}
TARGET = {"formula": None, "target": "cost", "operator": "linear"}
DEATH = {"formula": "Surv(days, died) ~ age", "operator": "cox"}
CASES = {
    "formula": {**COST, "formula": "cost ~ age + log(crp)"},
    "target": {**TARGET, "features": ("age", "sex")},
    "features": {**TARGET, "features": ("crp",)},
    "all_features": {**TARGET, "all_features": True},
    "missing": {**COST, "formula": "cost ~ age + crp", "missing": "mean"},
    "cov": {**COST, "cov": "HC1"},
    "clusters": {**COST, "cov": "cluster", "clusters": "ward"},
    "rare_levels": {**COST, "formula": "cost ~ C(ward)", "rare_levels": "merge"},
    "weights": {**COST, "weights": "days"},
    "weight_kind": {**COST, "weights": "times", "weight_kind": "frequency"},
    "offset": {**COST, "offset": "lab"},
    "exposure": {**VISITS, "exposure": "days"},
    "test_share": {**OUTCOME, "test_share": 0.2},
    "event": {**OUTCOME, "event": "no"},
    "levels": {**OUTCOME, "levels": {"sex": ["M", "F"]}},
    "random": {**COST, "random": "site"},
    "strata": {**DEATH, "strata": "site"},
    "ties": {**DEATH, "strata": "none", "ties": "breslow"},
    "grid": {**DEATH, "strata": "none", "grid": (10.0, 20.0, 30.0)},
    "guards": {**COST, "guards": Guards(sites=2)},
    "operator": {**COST, "operator": "huber"},
    "lam": {**COST, "lam": 0.1},
    "graph": {**COST, "graph": "path"},
    "mixing": {**COST, "mixing": "metropolis"},
    "algorithm": {**COST, "lam": 0.1, "algorithm": "extra", "max_passes": 3.0},
    "communication": {**COST, "lam": 0.1, "algorithm": "dsba", "communication": "dense", "max_passes": 3.0},
    "step_size": {**COST, "lam": 0.1, "algorithm": "extra", "step_size": 0.05, "max_passes": 3.0},
    "max_passes": {**COST, "max_passes": 2.0, "algorithm": "newton"},
    "tol": {**COST, "lam": 0.1, "algorithm": "extra", "tol": 0.1},
    "seed": {**OUTCOME, "test_share": 0.2, "seed": 3, "graph": "random"},
}
"""For every option of tables a fit that has it."""


@pytest.fixture(scope="module")
def frames():
    tables = {name: frame.drop(columns="secret name") for name, frame in hospitals().items()}
    tables = {name: frame.assign(died=(frame["year"] == 2002).astype(int)) for name, frame in tables.items()}
    tables = {name: frame.assign(times=1 + frame["visits"] % 3) for name, frame in tables.items()}
    tables["site0"].loc[tables["site0"].index[:3], "crp"] = None
    tables["site1"].loc[tables["site1"].index[:2], "ward"] = "rare"
    return tables


@pytest.fixture
def files(frames, tmp_path):
    for name, frame in frames.items():
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    return [tmp_path / f"{name}.csv" for name in frames]


def words(options):
    """The options as they are typed."""
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if name == "guards":
            yield "--allow-two-sites"
        elif value is True:
            yield flag
        elif isinstance(value, dict):
            yield from (word for column, levels in value.items() for word in (flag, f"{column}={','.join(levels)}"))
        elif value is not None:
            yield from (flag, ", ".join(map(str, value)) if isinstance(value, tuple) else str(value))


def test_every_option_has_a_case():
    assert CASES.keys() == {name for name, one in OPTIONS.items() if one.data != FOR_ARRAYS}
    for name, options in CASES.items():
        assert options[name] != FitSpec.__dataclass_fields__[name].default


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_the_same_bits_by_python_by_command_and_by_a_study_file(name, frames, files, tmp_path):
    options = {"graph": "ring", "missing": "drop", **CASES[name]}
    ours = dsba.fit(frames, **options)
    out = tmp_path / "run"
    CliRunner().invoke(app, ["train", *map(str, files), *words(options), "--out", str(out)], catch_exceptions=False)
    arrange(files, FitSpec(**options), tmp_path / "study")
    study = load(tmp_path / "study" / TRIAL_FILE)
    for found in (dsba.load(out), train(files, study.spec)):
        assert (found.params == ours.params).all()
        assert found.model.run.method == ours.model.run.method
        assert found.test == ours.test
        assert (found.metadata.inference is None) == (ours.metadata.inference is None)
        if ours.metadata.inference is not None:
            assert (found.cov_params() == ours.cov_params()).all(axis=None)
        assert found.event == ours.event
        assert found.references == ours.references


@pytest.mark.parametrize("name", CASES)
def test_the_study_file_has_the_option(name, files, tmp_path):
    spec = FitSpec(**{"graph": "ring", "missing": "drop", **CASES[name]})
    study = arrange(files, spec, tmp_path / "study")
    content = tomllib.loads((tmp_path / "study" / TRIAL_FILE).read_text())
    if name in ("target", "features", "all_features"):  # the trial writes the formula that they give
        assert study.model.formula.startswith("cost ~ ")
    elif name in ("levels", "event"):  # the trial writes the columns in this order
        assert content["columns"]["outcome"] == (["yes", "no"] if name == "event" else ["no", "yes"])
        assert content["columns"]["sex"] == (["M", "F"] if name == "levels" else ["F", "M"])
    elif name == "guards":
        assert study.spec.guards == spec.guards
    else:
        assert getattr(study.spec, name) == getattr(spec, name)
        assert (name in content["model"]) != (name in ELSEWHERE)


def test_a_study_file_may_name_a_target_and_an_event(files, tmp_path):
    arrange(files, FitSpec(formula="outcome ~ age + C(sex)", graph="ring"), tmp_path / "study")
    text = (tmp_path / "study" / TRIAL_FILE).read_text()
    told = text.replace('formula = "outcome ~ age + C(sex)"', 'target = "outcome"\nevent = "no"')
    told = told.replace("all_features = false", "all_features = true")
    (tmp_path / "told.toml").write_text(told)
    spec = load(tmp_path / "told.toml").spec
    assert (spec.formula, spec.event) == ("outcome ~ age + sex", "no")
    for key, sentence in (("graph", "the key graph does not stand under"), ("colour", "unknown key 'colour'")):
        (tmp_path / "odd.toml").write_text(text.replace("[model]", f'[model]\n{key} = "ring"'))
        with pytest.raises(dsba.InputError, match=sentence):
            load(tmp_path / "odd.toml")


def test_signature_docstring_and_help_have_every_option():
    shown = inspect.signature(dsba.fit).parameters
    helps = {command: flat(CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "200"}).stdout)
             for command in (("train",), ("study", "try"))}  # fmt: skip
    for name, one in OPTIONS.items():
        if one.data == FOR_ARRAYS:
            assert name not in shown
            continue
        assert name in shown
        assert re.search(rf"^{name} : .*\n    {re.escape(one.help)}", dsba.fit.__doc__, re.MULTILINE)
        option = "--allow-two-sites" if name == "guards" else f"--{name.replace('_', '-')}"
        assert all(option in text for text in helps.values()), name


def flat(text):
    return " ".join(text.replace("│", " ").split())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"lam": -1.0}, "lam must be a number >= 0, got -1.0"),
        ({"lam": float("inf")}, "lam must be a finite number, got inf"),
        ({"tol": "small"}, "tol must be a number >= 0, got 'small'"),
        ({"seed": 1.5}, "seed must be an integer >= 0, got 1.5"),
        ({"missing": "guess"}, "unknown missing 'guess'"),
        ({"rare_levels": "drop"}, "unknown rare levels 'drop'"),
        ({"weights": 3}, "weights must be a text, got 3"),
        ({"weight_kind": "analytic"}, "unknown weight kind 'analytic'"),
        ({"weight_kind": "sampling"}, "weight_kind = sampling belongs to a column of weights"),
        ({"weights": "days", "weight_kind": "sampling"}, "sampling weights ask for robust standard errors: give cov"),
        ({"guards": {"site": 2}}, "unknown guard 'site'; did you mean 'sites'"),
        ({"guards": 2}, "guards must be given as numbers by name"),
        ({"test_share": 1.0}, "the held-out share must be at least 0 and below 1"),
        ({"normalize": True}, "normalize is for arrays and LIBSVM files, and not for tables"),
        ({"target": "cost"}, "give either a formula, or a target with features or all_features"),
        ({"formula": None}, "dsba.fit needs a formula, or a target"),
        ({"formula": None, "target": "cost"}, "with a target give either features or all_features"),
        ({"formula": None, "missing": "drop"}, "missing is for tables: give a formula or a target as well"),
    ],
)
def test_bad_values_are_named_without_the_words_of_a_command(options, sentence):
    with pytest.raises(dsba.InputError, match=sentence) as error:
        dsba.fit(hospitals(), **{"formula": "cost ~ age", "operator": "linear", **options})
    assert "--" not in str(error.value)


def test_table_and_formula_in_the_other_order():
    with pytest.raises(dsba.InputError, match="takes the table first and the formula second"):
        dsba.fit("cost ~ age", hospitals())


def test_a_word_that_is_no_option():
    with pytest.raises(TypeError, match="colour"):
        dsba.fit(hospitals(), "cost ~ age", colour="red")
    assert "No such option" in ask_error("train", "a.csv", "--colour", "red")


def ask_error(*given):
    return flat(CliRunner().invoke(app, list(given)).output)
