"""``dsba train``, ``summary`` and ``predict`` on tables, in one process and under mpiexec."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from conftest import also_in_full
from mpi import MPIEXEC, TRAIN, mpiexec, needs_mpi, run
from sklearn.datasets import dump_svmlight_file
from test_inference import FORMULAS, FOUR, MODELS, assert_same, four_hospitals, patients, theirs
from typer.testing import CliRunner

import dsba
from dsba.cli import app
from dsba.data.table_files import TableFile
from dsba.fitting import codec
from dsba.fitting.codec import MODEL_FILE

KEYS = {"names", "coef", "se", "z", "p", "low", "high", "deviance", "aic"}
KEYS |= {
    "rounds",
    "rows",
    "cov",
    "status",
    "residual",
    "event",
    "references",
    "digest",
    "weights",
    "bic",
    "llf",
    "llnull",
    "null_deviance",
}
KEYS |= {"figures", "test"}
KEYS |= {"formula", "operator", "pearson_chi2", "scale", "df_model", "df_resid", "converged", "vif", "terms"}


def tables(folder, rows=(150, 90, 120, 60)):
    """A CSV file for each hospital, in a folder of its own, with columns in another order each."""
    files = []
    for n, (name, part) in enumerate(patients(rows).groupby("hospital")):
        order = np.random.default_rng(n).permutation([c for c in part.columns if c != "hospital"])
        file = folder / f"host{n}" / f"{name}.csv"
        file.parent.mkdir(parents=True)
        part[order].to_csv(file, index=False, sep=";" if n == 1 else ",")
        files.append(file)
    return files


def ask(*words, code=0):
    """What a command says; it must end well, or with this exit code."""
    found = CliRunner().invoke(app, list(map(str, words)))
    assert found.exit_code == code, (found.output, found.exception)
    return found.output


def refused(*words):
    found = CliRunner().invoke(app, list(map(str, words)))
    assert isinstance(found.exception, dsba.InputError), found.output
    return str(found.exception)


def from_python(files, operator, **options):
    frames = {file.stem: pd.read_csv(file, sep=None, engine="python") for file in files}
    return dsba.fit(frames, FORMULAS[operator], operator, graph="ring", **options)


def times_opened(opened, files, *words):
    """How often a command opens each of its files."""
    before = [opened(file) for file in files]
    ask(*words)
    return [opened(file) - count for file, count in zip(files, before, strict=True)]


def test_every_command_opens_a_table_once(tmp_path, opened):
    files, model = tables(tmp_path), tmp_path / "run"
    words = ("train", *files, "--formula", FORMULAS["logistic"], "--out", model)
    assert times_opened(opened, files, *words) == [1] * 4
    assert times_opened(opened, files[:1], "predict", model, files[0], "--keep", "age") == [1]
    assert times_opened(opened, files, "evaluate", model, *files) == [1] * 4
    assert times_opened(opened, files, "describe", *files) == [1] * 4


def test_commands_open_a_libsvm_file_at_most_twice(tmp_path, opened):
    X, y = dsba.data.load_breast_cancer()
    files = [tmp_path / name for name in ("a.svm", "b.svm")]
    for n, file in enumerate(files):
        dump_svmlight_file(X[n::2], y[n::2], str(file))
    words = ("train", *files, "--operator", "logistic", "--max-passes", 2, "--out", tmp_path / "run")
    before = [opened(file) for file in files]
    ask(*words, code=3)
    assert max(opened(file) - count for file, count in zip(files, before, strict=True)) <= 2
    assert times_opened(opened, files[:1], "predict", tmp_path / "run", files[0])[0] <= 2


@pytest.mark.parametrize("command", ["train", "predict", "evaluate", "describe"])
def test_a_table_that_is_replaced_after_its_header_was_read_is_refused(command, tmp_path, monkeypatch):
    files, read, model = tables(tmp_path), TableFile.read, tmp_path / "model"
    dsba.fit({file.stem: pd.read_csv(file, sep=None, engine="python") for file in files}, FORMULAS["logistic"]).save(
        model
    )

    def swapped(table, *given, **options):
        if table.path == files[2]:
            pd.read_csv(files[2]).head(40).to_csv(tmp_path / "other", index=False)
            (tmp_path / "other").replace(files[2])
        return read(table, *given, **options)

    monkeypatch.setattr(TableFile, "read", swapped)
    words = {
        "train": ("train", *files, "--formula", FORMULAS["logistic"], "--out", tmp_path / "run"),
        "predict": ("predict", model, files[2]),
        "evaluate": ("evaluate", model, *files),
        "describe": ("describe", *files),
    }[command]
    assert f"{files[2]} was changed or replaced after its header was read" in refused(*words)
    assert not (tmp_path / "run" / MODEL_FILE).exists()


@pytest.mark.parametrize(("operator", "cov"), [("logistic", "site"), ("poisson", "HC1"), ("linear", "classical")])
def test_the_commands_give_what_python_gives(operator, cov, tmp_path):
    files = tables(tmp_path)
    said = ask("train", *files, "--formula", FORMULAS[operator], "--operator", operator, "--cov", cov,
               "--graph", "ring", "--out", tmp_path / "run")  # fmt: skip
    assert "  h1      90        0\n" in said
    ours = from_python(files, operator, cov=cov)
    back = dsba.load(tmp_path / "run")
    pd.testing.assert_frame_equal(back.to_frame(), ours.to_frame(), check_exact=True)
    plain = json.loads(ask("summary", tmp_path / "run", "--json"))
    assert plain.keys() == KEYS
    assert plain["coef"] == ours.params.tolist()
    assert plain["se"] == ours.bse.tolist()
    assert plain["p"] == ours.pvalues.tolist()
    assert plain["rows"] == 420
    assert plain["rounds"] <= 200
    assert "C(sex)[T.M]" in ask("summary", tmp_path / "run")
    new = patients(seed=3).drop(columns="readmitted").head(30).assign(id=range(30))
    new.to_csv(tmp_path / "new.csv", index=False)
    ask("predict", tmp_path / "run", tmp_path / "new.csv", "--out", tmp_path / "p.csv", "--keep", "id")
    predictions = pd.read_csv(tmp_path / "p.csv")
    assert predictions["id"].tolist() == list(range(30))
    np.testing.assert_allclose(predictions["prediction"], ours.predict(new), rtol=1e-15)


def test_kept_columns_are_as_the_file_has_them(tmp_path):
    """Predictions are joined to patients by them: 0017 is not 17, and 1E5 no number."""
    ask("train", *tables(tmp_path), "--formula", "readmitted ~ age", "--out", tmp_path / "run")
    (tmp_path / "new.csv").write_text("id,age,code\n0017,50,1E5\n,60,NA\n123456789012345678901,61,2\n=1+1,62,-\n")
    said = ask("predict", tmp_path / "run", tmp_path / "new.csv", "--keep", "id", "--keep", "code")
    assert [line.rpartition(",")[0] for line in said.splitlines()] == [
        "id,code", "0017,1E5", ",NA", "123456789012345678901,2", "=1+1,-"
    ]  # fmt: skip
    assert len(ask("predict", tmp_path / "run", tmp_path / "new.csv").splitlines()) == 5


def test_a_kept_column_may_not_be_called_as_the_predictions(tmp_path):
    """It was replaced by them."""
    files = tables(tmp_path)
    ask("train", *files, "--formula", "readmitted ~ age", "--out", tmp_path / "run")
    (tmp_path / "new.csv").write_text("prediction,age\n5,50\n")
    told = refused("predict", tmp_path / "run", tmp_path / "new.csv", "--keep", "prediction")
    assert "the predictions have a column 'prediction' of their own" in told
    told = refused("evaluate", tmp_path / "run", *files, "--plot", tmp_path / "p.png")
    assert "this plot is an .svg file, got 'p.png'" in told


def test_a_site_may_be_called_as_a_file_whose_name_is_no_text(tmp_path):
    files = tables(tmp_path)
    odd = files[0].rename(files[0].with_name("a\udce9.csv"))
    code, text = run(*TRAIN, odd, *files[1:], "--formula", "readmitted ~ age", "--out", tmp_path / "run")
    assert code == 0, text
    assert r"a\udce9" in (tmp_path / "run" / "report.html").read_text()


def test_codes_with_leading_zeros_are_levels_of_their_own(tmp_path):
    rng = np.random.default_rng(1)
    files = [tmp_path / name for name in ("a.csv", "b.csv")]
    for file in files:
        labels = rng.integers(0, 2, 90)
        pd.DataFrame({"code": np.resize(["01", "02", "1"], 90), "y": labels}).to_csv(file, index=False)
    ask("train", *files, "--formula", "y ~ C(code)", "--allow-two-sites", "--out", tmp_path / "run")
    model = dsba.load(tmp_path / "run")
    assert [*model.params.index] == ["Intercept", "C(code)[T.02]", "C(code)[T.1]"]
    assert len(set(ask("predict", tmp_path / "run", files[0]).splitlines())) == 4
    files[1].write_text("code,y\n" + "1,0\n2,1\n3,0\n" * 30)
    told = refused("train", *files, "--formula", "y ~ C(code)", "--allow-two-sites", "--out", tmp_path / "other")
    assert "the column 'code' is" in told


def test_labels_are_predicted_on_demand(tmp_path):
    files = tables(tmp_path)
    ask("train", *files, "--target", "readmitted", "--features", "age, sex", "--out", tmp_path / "run")
    probabilities = ask("predict", tmp_path / "run", files[0]).splitlines()[1:]
    assert ask("predict", tmp_path / "run", files[0], "--proba").splitlines()[1:] == probabilities
    labels = ask("predict", tmp_path / "run", files[0], "--label").splitlines()[1:]
    assert labels == ["yes" if float(p) > 0.5 else "no" for p in probabilities]
    assert dsba.load(tmp_path / "run").params.index.tolist() == ["Intercept", "age", "sex[T.M]"]


def test_rows_without_a_prediction_are_told(tmp_path):
    """Before, --label gave these rows the first class, and nothing said that a code for missing was predicted from."""
    files = tables(tmp_path)
    ask("train", *files, "--formula", "readmitted ~ log(age) + C(sex)", "--out", tmp_path / "run")
    frame = pd.read_csv(files[0]).head(40)
    frame["age"] = frame["age"].astype(float)
    frame.loc[:5, "age"] = [np.nan, -999.0, -999.0, -999.0, 0.0, -1.0]
    frame.to_csv(tmp_path / "new.csv", index=False)
    for words in ((), ("--label",)):
        found = CliRunner().invoke(app, ["predict", str(tmp_path / "run"), str(tmp_path / "new.csv"), *words])
        assert found.stdout.splitlines()[1:7] == ['""'] * 6
        assert '""' not in found.stdout.splitlines()[7:]
        assert found.stderr.splitlines() == [
            "Look at this: an extreme value of 'age' is repeated at new, far from all others: a code for missing?",
            "6 of 40 rows have no prediction: a value that the model needs is missing, or a function of it is not a "
            "number.",
        ]


def test_exposure_and_missing_values(tmp_path):
    files = tables(tmp_path)
    gaps = pd.read_csv(files[0])
    gaps.loc[gaps.index[:7], "age"] = np.nan
    gaps.to_csv(files[0], index=False)
    words = ("train", *files, "--formula", "visits ~ age + C(sex)", "--operator", "poisson", "--exposure", "days")
    assert "has 7 missing values over all sites: say what to do" in refused(*words, "--out", tmp_path / "no")
    said = ask(*words, "--missing", "drop", "--out", tmp_path / "run")
    assert "  h0     150        7\n" in said
    whole = pd.concat([pd.read_csv(file, sep=None, engine="python").assign(hospital=file.stem) for file in files])
    whole = whole[whole["age"].notna()].reset_index(drop=True)
    found = theirs(whole, "visits ~ age + C(sex)", "poisson", exposure=whole["days"])
    assert_same(dsba.load(tmp_path / "run"), found, "poisson", "classical")


def test_all_features(tmp_path):
    files = tables(tmp_path)
    ask("train", *files, "--target", "cost", "--all-features", "--operator", "linear", "--weights", "weight",
        "--out", tmp_path / "run")  # fmt: skip
    found = dsba.load(tmp_path / "run")
    assert set(found.formula.columns) == set(pd.read_csv(files[0]).columns) - {"cost", "weight"}
    odd = pd.read_csv(files[2])
    odd.assign(extra=1.0).to_csv(files[2], index=False)
    said = refused("train", *files, "--target", "cost", "--all-features", "--out", tmp_path / "other")
    assert "the column 'extra' is in only one of the tables h0 and h2" in said
    odd.assign(days=[f"patient-{n}" for n in range(len(odd))]).to_csv(files[2], index=False)
    said = refused("train", *files, "--target", "cost", "--features", "days", "--out", tmp_path / "another")
    assert "'days' is text at h2 and a number elsewhere" in said
    for file in files:
        frame = pd.read_csv(file, sep=None, engine="python")
        frame.assign(days=[f"patient-{n}" for n in range(len(frame))]).to_csv(file, index=False)
    said = refused(
        "train", *files, "--target", "cost", "--all-features", "--operator", "linear", "--out", tmp_path / "last"
    )
    assert "the column 'days' has more than 50 levels at h0: it looks like an identifier" in said
    assert "patient" not in said


@needs_mpi
@pytest.mark.parametrize("operator", also_in_full(["logistic"], FORMULAS))
def test_one_process_and_four_ranks_give_the_same_bits(operator, tmp_path):
    """Every rank finds its own table only; the others are not in its folder."""
    files = tables(tmp_path)
    words = ("--formula", FORMULAS[operator], "--operator", operator, "--cov", "HC1", "--graph", "ring", "--out")
    ask("train", *files, *words, tmp_path / "one")
    names = [file.name for file in files]
    parts = [
        (":",) * (n > 0) + ("-n", "1", "-wdir", file.parent, *TRAIN, *names, *words, "run")
        for n, file in enumerate(files)
    ]
    code, text = run(MPIEXEC, *(word for part in parts for word in part))
    assert code == 0, text
    one, many = codec.load(tmp_path / "one"), codec.load(files[0].parent / "run")
    assert (one.Z == many.Z).all()
    assert (one.weights == many.weights).all()
    assert (one.intercepts == many.intercepts).all()
    assert one.table == many.table
    assert many.run.processes == 4
    assert many.table.rounds <= 200


@four_hospitals
@needs_mpi
@pytest.mark.parametrize(("operator", "cov"), [("logistic", "classical"), ("poisson", "HC1"), ("linear", "HC0")])
def test_four_hospitals_on_four_ranks(operator, cov, tmp_path):
    files = sorted(FOUR.glob("*.csv"))
    code, text = mpiexec(4, *TRAIN, *files, "--formula", MODELS[operator], "--operator", operator, "--missing", "drop",
                         "--cov", cov, "--graph", "ring", "--out", tmp_path / "run")  # fmt: skip
    assert code == 0, text
    whole = pd.concat([pd.read_csv(file).assign(hospital=file.stem) for file in files], ignore_index=True)
    named = [column for column in whole.columns if column in MODELS[operator]]
    whole = whole[[*named, "hospital"]].dropna().reset_index(drop=True)
    ours = dsba.load(tmp_path / "run")
    assert_same(ours, theirs(whole, MODELS[operator], operator, cov), operator, cov)
    assert ours.rounds <= 200


def test_a_damaged_model_is_refused(tmp_path):
    files = tables(tmp_path)
    ask("train", *files, "--formula", "cost ~ age", "--operator", "linear", "--out", tmp_path / "run")
    model = codec.load(tmp_path / "run")
    short = replace(model.table.inference, covariance=model.table.inference.covariance[:-1])
    codec.save(replace(model, table=replace(model.table, inference=short)), tmp_path / "run")
    assert "is damaged" in refused("summary", tmp_path / "run")


@needs_mpi
def test_guards_end_the_fit_between_owners_and_only_speak_in_one_process(tmp_path):
    files = tables(tmp_path, (100, 80))
    words = (*files, "--formula", "cost ~ age", "--operator", "linear", "--graph", "path", "--out")
    said = ask("train", *words, tmp_path / "one")
    assert "2 sites agree on the columns of the model:\n  column  type    missing  levels" in said
    assert "  age     number        0\n" in said
    assert "  site  rows  missing\n  h0     100        0\n  h1      80        0\n" in said
    assert "Between owners this would be refused: 2 sites take part, and at least 3 are wanted" in said
    code, text = mpiexec(2, *TRAIN, *words, tmp_path / "two")
    assert code == 2
    assert "2 sites take part, and at least 3 are wanted" in text
    assert not (tmp_path / "two" / "model.dsba").exists()
    code, text = mpiexec(2, *TRAIN, *words, tmp_path / "allowed", "--allow-two-sites")
    assert code == 0, text
    parts = codec.load(tmp_path / "allowed").table.schema.parts
    assert [part.guards.sites for part in parts] == [2, 2]
    assert "h1 allows two sites." in text


@needs_mpi
def test_a_site_without_a_column_is_named_at_all_ranks(tmp_path):
    files = tables(tmp_path)
    pd.read_csv(files[2]).rename(columns={"age": "agee"}).to_csv(files[2], index=False)
    code, text = mpiexec(4, *TRAIN, *files, "--formula", "cost ~ age", "--operator", "linear", "--out", tmp_path / "r")
    assert code == 2
    assert "h2 has no column 'age'; did you mean 'agee'?" in text
    assert "Traceback" not in text


def test_a_second_run_goes_on_from_the_checkpoint(tmp_path):
    files = tables(tmp_path)
    words = ("train", *files, "--formula", FORMULAS["logistic"], "--graph", "ring", "--out")
    ask(*words, tmp_path / "one")
    ask(*words, tmp_path / "one")
    ask(*words, tmp_path / "two")
    one, two = (codec.load(tmp_path / name) for name in ("one", "two"))
    assert one.table == two.table


def test_sites_need_names_of_their_own(tmp_path):
    files = tables(tmp_path)
    twin = files[1].rename(files[1].with_name(files[0].name))
    said = refused("train", files[0], twin, "--formula", "cost ~ age", "--graph", "path", "--out", tmp_path / "run")
    assert "two files have the same name" in said


def test_options_that_do_not_fit_are_refused(tmp_path):
    files = tables(tmp_path)
    out = ("--out", tmp_path / "run")
    formula = ("--formula", "cost ~ age")
    for words, sentence in (
        ((*formula, "--n-features", 3), "--n-features is for LIBSVM files"),
        (("--cov", "HC1"), "cov is for tables: give a formula or a target as well"),
        ((*formula, "--target", "cost"), "give either a formula, or a target"),
        (("--target", "cost"), "with a target give either features or all_features"),
        ((), "is a table with column names; wanted LIBSVM text"),
        (("--formula", "cost ~ age", "--operator", "poisson", "--graph", "ring", "--missing", "guess"), "'guess'"),
    ):
        assert sentence in refused("train", *files, *words, *out)


def test_predictions_of_a_column_of_another_type_are_refused(tmp_path):
    files = tables(tmp_path)
    ask("train", *files, "--formula", "cost ~ age", "--operator", "linear", "--out", tmp_path / "run")
    marked = tmp_path / "marked.csv"
    pd.read_csv(files[0]).assign(age="unknown").to_csv(marked, index=False)
    sentence = "the column 'age' of marked is text, and the model was trained with number."
    assert refused("predict", tmp_path / "run", marked) == sentence


def test_models_and_files_of_the_other_kind_are_refused(tmp_path):
    files = tables(tmp_path)
    ask("train", *files, "--formula", "cost ~ age", "--operator", "linear", "--out", tmp_path / "run")
    svm = [tmp_path / f"{n}.svm" for n in range(2)]
    for n, file in enumerate(svm):
        file.write_text("".join(f"{(-1) ** k} 1:{k + n} 2:{k * k}\n" for k in range(9)))
    ask("train", *svm, "--max-passes", 1, "--graph", "path", "--out", tmp_path / "other", code=3)
    assert "is LIBSVM text" in refused("predict", tmp_path / "run", svm[0])
    assert "was trained on LIBSVM files" in refused("predict", tmp_path / "other", files[0])
    assert "are for models of tables" in refused("predict", tmp_path / "other", svm[0], "--label")
    assert "was not trained on a table" in refused("summary", tmp_path / "other")
    assert "is LIBSVM text" in refused("train", *svm, "--formula", "y ~ x", "--graph", "path", "--out", tmp_path / "no")
