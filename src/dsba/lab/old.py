"""Results folders of dsba 0.1.0, which had no index: one is made from the files, and nothing is run or imported.

A run is recognised by the identifier that 0.1.0 gave it, a fingerprint of its settings. Where that cannot be made
again, because the graph was read from a file, a run is recognised by the words in its name and its number of nodes.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from dsba.errors import InputError
from dsba.graph.topology import FAMILIES, Topology
from dsba.lab import digests, titles
from dsba.lab.folder import Folder, Schema
from dsba.lab.index import (
    Candidate,
    Case,
    Environment,
    Facts,
    Index,
    Method,
    Outcome,
    Planned,
    Search,
    ShownNetwork,
    ShownRun,
)

VERSION = "0.1.0"
MOST_NODES = 2000  # of a graph that is drawn


class Table(BaseModel):
    """A table of the configuration, with what 0.1.0 left out of the file."""

    model_config = ConfigDict(extra="allow", frozen=True)

    def content(self) -> dict[str, Any]:
        return self.model_dump(mode="json", exclude_none=True)


class DataTable(Table):
    name: str
    label: str = ""


class ProblemTable(Table):
    operator: str = "logistic"
    lam: float | None = None
    regularize: str = "weights"


class NetworkTable(Table):
    graph: str = "random"
    n_nodes: int = 10
    p: float = 0.4
    seed: int = 0
    mixing: Literal["laplacian", "metropolis"] = "laplacian"
    tau: float | None = None
    edges: str | None = None

    def topology(self) -> Topology | None:
        """The graph, where a family makes it; a file that the configuration names is not read."""
        if self.edges is not None or self.graph not in FAMILIES or self.n_nodes > MOST_NODES:
            return None
        try:
            return Topology.family(self.graph, self.n_nodes, p=self.p, seed=self.seed, mixing=self.mixing, tau=self.tau)
        except InputError:
            return None


class MethodTable(Table):
    algorithm: str
    label: str = ""
    step_size: float | str = "tune"
    communication: Literal["dense", "sparse", "cached"] = "dense"

    @property
    def title(self) -> str:
        return self.label or self.algorithm.upper() + titles.COMMUNICATION[self.communication]

    def same_iterates(self) -> MethodTable:
        return self.model_copy(update={"communication": "dense", "label": ""})


class Configuration(Table):
    title: str = "Comparison"
    seeds: list[int] = [0]
    splits: list[str] = ["random"]
    metrics: list[str] = []
    axes: list[str] = ["passes", "doubles_max"]
    stop: dict[str, Any] = {}
    tune: dict[str, Any] = {}
    data: list[DataTable]
    problem: list[ProblemTable]
    network: list[NetworkTable] = [NetworkTable()]
    method: list[MethodTable]


@dataclass(frozen=True, eq=False)
class OldCase:
    """A combination of the configuration, with the names that 0.1.0 gave its files."""

    data: DataTable
    problem: ProblemTable
    network: NetworkTable
    split: str

    @cached_property
    def topology(self) -> Topology | None:
        return self.network.topology()

    @cached_property
    def reference(self) -> str:
        content = [self.data.content() | {"label": ""}, self.problem.content()]
        return identifier([Path(self.data.name).name, self.problem.operator], content)

    @cached_property
    def id(self) -> str | None:
        if self.topology is None:
            return None
        content = self.network.content() | {"topology": self.topology.digest()}
        return identifier([self.reference, self.topology.name, self.split], [content])

    def search(self, method: MethodTable, e: Configuration) -> str:
        passes = e.tune.get("passes") or e.stop.get("max_passes")
        settings = [passes, e.seeds[0], *(e.stop.get(key) for key in ("gap_tol", "tol", "record_every"))]
        content = [self.id, method.same_iterates().content() | {"label": ""}, settings]
        return identifier([self.reference, "tune", method.algorithm], content)

    def run(self, method: MethodTable, seed: int, e: Configuration) -> str:
        step = self.search(method, e) if method.step_size == "tune" else method.step_size
        content = [self.id, method.content() | {"label": ""}, step, e.stop]
        return identifier([self.reference, method.title, f"s{seed}"], content)


class OldFolder(Folder):
    """A folder of 0.1.0, read as if it had an index."""

    def read_index(self) -> Index:
        raw = self.read(self.config)
        try:
            config = Configuration.model_validate(tomllib.loads(raw.decode()))
            return Conversion(self, config).index(raw.decode())
        except digests.DAMAGE as error:
            if isinstance(error, InputError):
                raise
            raise digests.damaged(str(self.config), error) from None

    def read_sealed(self, path: Path, schema: type[Schema]) -> Schema:
        """0.1.0 kept no digests and other keys."""
        raw = self.read(path)
        try:
            return schema.model_validate(_TRANSLATED.get(schema, dict)(digests.parsed(raw)))
        except digests.DAMAGE as error:
            raise digests.damaged(str(path), error) from None


class Conversion:
    """From a configuration and the names of the files beside it to an index."""

    def __init__(self, folder: OldFolder, config: Configuration) -> None:
        self.folder, self.config = folder, config
        self.left = sorted(path.stem for path in folder.inside(folder.root / "runs").glob("*.json"))
        e = config
        self.cases = [OldCase(*parts) for parts in product(e.data, e.problem, e.network, e.splits)]

    def index(self, text: str) -> Index:
        found = list(self._runs())
        entries = {
            case: self._case(case, next((id for c, _, _, id in found if c is case), None)) for case in self.cases
        }
        runs = [ShownRun(id=id, case=entries[c].id, method=m.title, seed=seed) for c, m, seed, id in found]
        e = self.config
        return Index(
            title=e.title, config=text, seeds=e.seeds, axes=e.axes, metrics=e.metrics,
            max_passes=e.stop.get("max_passes", 60.0), left_out=self._left_out(found), data={}, plugins={},
            networks={entries[c].network: ShownNetwork.of(c.topology) if c.topology else None for c in self.cases},
            cases=[entries[case] for case in self.cases], runs=runs,
            methods=[Method(title=m.title, iterates=_iterates(m)) for m in e.method],
            searches=list(self._searches(entries)),
        )  # fmt: skip

    def _runs(self) -> Iterator[tuple[OldCase, MethodTable, int, str]]:
        wanted = list(product(self.cases, self.config.method, self.config.seeds))
        exact = [case.run(method, seed, self.config) if case.id else None for case, method, seed in wanted]
        unknown = sorted(set(self.left) - set(exact))
        for (case, method, seed), id in zip(wanted, exact, strict=True):
            alike = [other for other in unknown if self._could_be(other, case, method, seed)] if id is None else []
            if id in self.left:
                yield case, method, seed, str(id)
            elif len(alike) == 1:
                unknown.remove(alike[0])
                yield case, method, seed, alike[0]

    def _could_be(self, id: str, case: OldCase, method: MethodTable, seed: int) -> bool:
        words = readable([case.reference, method.title, f"s{seed}"])
        return re.sub(r"-[0-9a-f]{8}$", "", id) == words

    def _case(self, case: OldCase, run: str | None) -> Case:
        rows = self.folder.read_outcome(run).node_rows if run else []
        nodes = len(rows) or (case.topology.n_nodes if case.topology else case.network.n_nodes)
        table = case.network
        facts = self.folder.read_facts(case.reference) if self.folder.facts(case.reference).exists() else None
        graph = Path(table.edges).stem if table.edges else table.graph
        lam, regularize = case.problem.lam, case.problem.regularize
        problem, alike = (titles.problem_title(case.problem.operator, value, regularize) for value in (lam, None))
        network, family = (
            titles.network_title(graph, table.p, n, table.mixing, seed=table.seed, tau=table.tau) for n in (nodes, None)
        )
        return Case(
            id=case.id or identifier([case.reference, graph, case.split], [table.content()]),
            data=titles.data_title(case.data.name, case.data.label, bool(facts and facts.binarisation)),
            problem=problem,
            operator=case.problem.operator,
            network=network,
            nodes=nodes,
            split=case.split,
            reference=case.reference,
            besides=titles.besides((problem, alike), (network, family), nodes),
        )  # fmt: skip

    def _searches(self, entries: dict[OldCase, Case]) -> Iterator[Planned]:
        for case, method in product(self.cases, self.config.method):
            if method.step_size == "tune" and case.id is not None:
                id = case.search(method, self.config)
                yield Planned(id=id, case=entries[case].id, method=method.same_iterates().title)

    def _left_out(self, found: list[tuple[OldCase, MethodTable, int, str]]) -> list[str]:
        ran = {(c.problem.operator, m.title) for c, m, _, _ in found}
        pairs = product(dict.fromkeys(p.operator for p in self.config.problem), (m.title for m in self.config.method))
        sentences = [f"{m} has no finished run for {operator}." for operator, m in pairs if (operator, m) not in ran]
        unknown = len(set(self.left) - {id for *_, id in found})
        return sentences + ([f"{unknown} runs in the folder are of other settings."] if unknown else [])


def _iterates(method: MethodTable) -> str:
    return json.dumps(method.same_iterates().content(), sort_keys=True)


def _search(values: dict[str, Any]) -> dict[str, Any]:
    metric = values["metric"]
    keep = ("parameters", "factor", "passes", "status", "chosen")
    candidates = [Candidate(value=c[metric], **{key: c[key] for key in keep}) for c in values["candidates"]]
    edge = ["step_size"] if values["at_edge"] else []
    warnings = [f"{values['method']}: the best step size is at the edge of what was tried."] if edge else []
    known = {key: values[key] for key in ("id", "method", "metric", "parameters", "factor")}
    return known | {"at_edge": edge, "warnings": warnings, "candidates": candidates}


def _outcome(values: dict[str, Any]) -> dict[str, Any]:
    return values | {"versions": {"dsba": VERSION}}


_TRANSLATED: dict[type[BaseModel], Any] = {Search: _search, Outcome: _outcome, Facts: dict, Environment: dict}


def readable(words: list[str]) -> str:
    text = "-".join(re.sub(r"-[0-9a-f]{8}$", "", word) for word in words)
    return re.sub(r"[^a-z0-9.]+", "-", text.lower())


def identifier(words: list[str], content: Any) -> str:
    """As 0.1.0 made it: readable words, and a fingerprint of them, the content and the version."""
    text = json.dumps([VERSION, words, content], sort_keys=True)
    return f"{readable(words)}-{hashlib.blake2b(text.encode(), digest_size=4).hexdigest()}"
