"""What a results folder says of itself: one schema for each kind of file. The report needs nothing else.

results.dsba     Index: titles, order, networks, the environment, and the identifiers of the present experiment's files
optima/ID.dsba   ShownReference: a data set and its reference solution
tuning/ID.dsba   ShownSearch: a step-size search
runs/ID.dsba     Outcome: how a run ended
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from dsba.graph.link import Link

if TYPE_CHECKING:
    from dsba.graph.topology import Topology

AXES = (
    "passes", "nominal_passes", "work", "rounds", "doubles_max", "bytes_max", "seconds", "cpu_seconds", "time",
)  # fmt: skip
ON_DATA = ("accuracy", "log_loss", "loss")  # of the mean model on all data; with "test_" before it, on the test set
METRICS = (
    "gap", "distance", "consensus", "residual", "auc", "test_auc", *ON_DATA, *(f"test_{name}" for name in ON_DATA),
)  # fmt: skip
OTHER_COLUMNS = ("iteration", "objective", "index_bytes_max")  # of histories, besides axes and metrics
Axis = Annotated[str, Field(pattern=f"^({'|'.join(AXES)})$")]
MetricName = Annotated[str, Field(pattern=r"^[^\W\d]\w*$", max_length=100)]  # user-defined functions among them

Identifier = Annotated[str, Field(pattern=r"^[a-z0-9.-]+$", max_length=200)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
AtLeastZero = Annotated[int, Field(ge=0)]
Number = Annotated[float, Field(allow_inf_nan=False)]
SettingValue = bool | int | Number | str  # of a method, as a search varies it
Judge = Annotated[str, Field(pattern="^(gap|distance)$")]  # what methods are judged by


class Shown(BaseModel):
    """A part of the folder's files: unknown keys are damage, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ShownNetwork(Shown):
    """A graph and the spectrum of its mixing matrix (I + W)/2."""

    nodes: Annotated[int, Field(ge=1)]
    edges: list[tuple[AtLeastZero, AtLeastZero]]
    eigenvalues: list[Number]
    gamma: Number
    diameter: AtLeastZero
    on_circle: bool = False  # how the graph is drawn best

    @classmethod
    def of(cls, topology: Topology) -> ShownNetwork:
        return cls(
            nodes=topology.n_nodes, edges=[(int(n), int(m)) for n, m in topology.edges],
            eigenvalues=list(map(float, topology.eigenvalues)), gamma=float(topology.gamma),
            diameter=int(topology.diameter), on_circle=topology.name in ("ring", "complete"),
        )  # fmt: skip

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if any(node >= self.nodes for edge in self.edges for node in edge):
            raise ValueError(f"an edge names a node beyond {self.nodes}")
        return self


class Identified(Shown):
    """A part that belongs to one identifier."""

    id: Identifier


class ShownCase(Identified):
    """A problem on data over a network, split in one way: one set of axes, one table, a curve per method."""

    data: str
    problem: str
    operator: str
    network: str
    nodes: Annotated[int, Field(ge=1)]
    split: str
    reference: Identifier  # the identifier of its reference
    besides: dict[str, str] = {}  # by what a sweep goes over: what else the case is

    @property
    def titles(self) -> dict[str, str]:
        return {"data": self.data, "problem": self.problem, "network": self.network, "split": self.split}


class ShownMethod(Shown):
    title: str
    iterates: str  # equal for methods that only communicate differently
    algorithm: str = ""
    settings: dict[str, SettingValue] = {}  # the options that a sweep may go over


class PlannedSearch(Identified):
    case: Identifier
    method: str


class ShownRun(PlannedSearch):
    seed: AtLeastZero


class Environment(Shown):
    """What results depend on besides their content."""

    command: str = ""
    versions: dict[str, str] = {}
    machine: dict[str, str | int] = {}
    commit: str | None = None


class Index(Shown):
    """Everything that the files of the single jobs do not say."""

    format: Literal[3] = 3
    title: str
    config: str  # the experiment as TOML, for people
    seeds: list[AtLeastZero]
    axes: Annotated[list[Axis], Field(min_length=1)]
    metrics: list[MetricName]
    band: Literal["range", "quartiles"] = "range"
    link: Link = Link()
    max_passes: Number
    left_out: list[str]  # why a method does not appear on a problem, a sentence each
    data: dict[str, Digest]  # of the data files' bytes, by name
    plugins: dict[str, Digest]  # of the sources of user-defined code, by name
    networks: dict[str, ShownNetwork | None]
    cases: list[ShownCase]
    methods: list[ShownMethod]
    runs: list[ShownRun]
    searches: list[PlannedSearch]
    environment: Environment = Environment()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        known = {case.id for case in self.cases}
        if not known.issuperset([*(run.case for run in self.runs), *(search.case for search in self.searches)]):
            raise ValueError("a run belongs to no case")
        if not set(self.networks).issuperset(case.network for case in self.cases):
            raise ValueError("a case has no network")
        if not {method.title for method in self.methods}.issuperset(run.method for run in self.runs):
            raise ValueError("a run has an unknown method")
        return self


class ShownReference(Identified):
    """Of the data and the reference solution."""

    rows: AtLeastZero
    columns: AtLeastZero
    nonzeros: AtLeastZero
    lam: Number
    residual: Number
    certified: bool
    metric: Judge
    binarisation: str | None = None
    test_set: str | None = None
    kappa: Number | None = None  # L/mu of the pooled problem; None in folders of older versions
    auc: Number | None = None
    test_auc: Number | None = None
    metrics: dict[str, Number | None] = {}

    @property
    def levels(self) -> dict[str, float]:
        """What the reference solution reaches."""
        found = {"auc": self.auc, "test_auc": self.test_auc, **self.metrics}
        return {name: value for name, value in found.items() if value is not None}


class Candidate(Shown):
    """A variant that a search tried; ``value`` is None where it diverged."""

    parameters: dict[str, SettingValue]
    factor: Number
    passes: Number
    cost: Number
    value: Number | None
    status: str
    chosen: bool


class ShownSearch(Identified):
    """A step-size search: every candidate, the chosen one, and what there is to warn of."""

    method: str
    metric: Judge
    by: str  # what was to cost least
    parameters: dict[str, SettingValue]
    factor: Number
    at_edge: list[str]  # the tuned numbers that are at a bound, or at the end of a grid
    warnings: list[str]
    candidates: list[Candidate]


class Attempt(Shown):
    """How far a candidate came with one seed and one budget; ``least`` is its best value on the way."""

    status: str
    passes: Number
    cost: Number
    value: Number | None
    least: Number | None


class Attempts(Shown):
    """The notes of a search under way."""

    attempts: dict[str, Attempt]


class Outcome(Identified):
    """How a run ended."""

    status: str
    message: str
    step_size: Number | None = None
    chosen: dict[str, SettingValue] = {}  # the step size and the other open constants, as numbers
    algorithm: str = ""
    problem: str = ""
    node_rows: list[AtLeastZero] = []
    node_positives: list[AtLeastZero] = []
    versions: dict[str, str] = {}


def class_name(name: str) -> str:
    """The class of "folder/file.py:Class" or "module:Class"; a registered name as it is."""
    return name.rpartition(":")[2]


def written(setting: bool | float | str, digits: int) -> str:
    """A setting for a table."""
    return f"{setting:.{digits}g}" if isinstance(setting, float) else str(setting)
