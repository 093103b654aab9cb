"""The tables of an experiment's file: data, problems, networks, methods, and when to stop.

Every value is checked when it is read.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    InstanceOf,
    PlainSerializer,
    field_serializer,
    field_validator,
    model_validator,
)

from dsba import algorithms, operators
from dsba.algorithms import Algorithm
from dsba.algorithms.open_constants import ConstantKind, SearchRange
from dsba.data import registry
from dsba.errors import InputError, require_known, shortened, unknown_name
from dsba.graph.mixing import MIXINGS
from dsba.graph.topology import GRAPH_FAMILIES, Topology
from dsba.lab.index import ShownMethod, ShownNetwork, class_name, written
from dsba.lab.objects import GivenArrays, read_array, read_numpy
from dsba.network import Activation, Bursty, Changing, Compressed, Delayed, Lossy, Network, Simulator
from dsba.operators import Operator, penalties
from dsba.operators.penalties import Penalty
from dsba.problem.problem import Problem
from dsba.storage import plugins

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
AtLeastOne = Annotated[int, Field(ge=1, strict=True)]
Seed = Annotated[int, Field(ge=0, strict=True)]
TuneCost = Literal["passes", "rounds", "bytes", "work", "time"]
COMMUNICATION = {"dense": "", "compressed": "-compressed", "sparse": "-s", "cached": "-c"}  # in a title
UNNAMED = ("custom", "networkx", "edges")  # the names of topologies that were given as objects
WORD_PATTERN = re.compile(r"\w+")


def _known(look_up: Callable[[Any], object]) -> BeforeValidator:
    """A name or an object is looked up before pydantic makes an object of a table."""

    def check(given: Any) -> Any:
        look_up(given)
        return given

    return BeforeValidator(check)


AS_TEXT = PlainSerializer(lambda given: given if isinstance(given, str) else repr(given), return_type=str)


class Section(BaseModel):
    """A table of the file: unknown keys are errors, values do not change."""

    # infinite numbers stay numbers
    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True, ser_json_inf_nan="constants")

    def content(self) -> dict[str, Any]:
        """What was set, defaults included, for identifiers and for TOML."""
        return self.model_dump(mode="json", exclude_none=True)


class Budgets(Section):
    """What a run may spend."""

    max_passes: Positive | None = None
    max_seconds: Positive | None = None
    max_doubles: Positive | None = None
    max_rounds: Positive | None = None


class Data(Section):
    """A data set: an embedded name, a name in $DSBA_DATA or the cache, the path of a LIBSVM file or of a .npz file with
    X and y (and perhaps X_test and y_test). In Python also arrays: ``X``, ``y``, ``X_test``, ``y_test``.
    """

    name: str
    label: str = ""  # shown in figures; by default the registry's title, or the file's name
    test: str | None = None  # the test set; by default the file beside it that ends in .t (or .tst for .trn)
    positive: Literal["half"] | tuple[float, ...] | None = None  # which classes are +1; "half": the first half
    normalize: bool | None = None  # rows of norm 1; true by default
    rows: GivenArrays | None = Field(default=None, exclude=True)
    test_rows: GivenArrays | None = Field(default=None, exclude=True)

    @model_validator(mode="before")
    @classmethod
    def _arrays(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        name = given.get("name")
        if isinstance(name, str) and name.endswith(".npz"):
            given = {**read_numpy(name, ("X", "y"), ("X_test", "y_test")), **given}
        rest = {key: value for key, value in given.items() if key not in ("X", "y", "X_test", "y_test")}
        for key, end in (("rows", ""), ("test_rows", "_test")):
            X, y = given.get(f"X{end}"), given.get(f"y{end}")
            if X is not None or y is not None:
                rest[key] = GivenArrays.of(X, y, f"the data set {rest.get('name', '')!r}")
        return rest

    @property
    def title(self) -> str:
        return self.label or registry.title(self.name)

    @property
    def binarisation(self) -> Literal["half"] | tuple[float, ...] | None:
        """``positive``, or "half" for a set that is known to have more than two classes."""
        known = registry.REGISTRY.get(self.name) if self.rows is None else None
        return self.positive or ("half" if known and known.classes > 2 else None)


class Problems(Section):
    """An operator with its regularisation; ``lam`` missing is 1/(10 Q). Further keys are the operator's own numbers.

    ``penalty`` is a table with a name and the penalty's numbers: ``{name = "l1", strength = 0.01}``. In Python operator
    and penalty may be objects. ``label`` is shown instead of all that.
    """

    model_config = ConfigDict(extra="allow", frozen=True, arbitrary_types_allowed=True)

    operator: Annotated[str | Operator, _known(operators.get), AS_TEXT] = "logistic"
    lam: Positive | None = None
    regularize: Literal["weights", "all"] = "weights"
    intercept: bool | Positive | None = None
    penalty: InstanceOf[Penalty] | None = None
    label: str | None = None

    @field_validator("penalty", mode="before")
    @classmethod
    def _named_penalty(cls, given: Any) -> Any:
        if isinstance(given, Mapping):
            return penalties.get(given.get("name", ""), **{key: given[key] for key in given if key != "name"})
        if given is not None and type(given) not in penalties.REGISTRY.values():
            wanted = f"a table with the name {', '.join(penalties.REGISTRY)}, or such an object"
            raise InputError(f"an experiment's penalty must be {wanted}, got {shortened(repr(given), 60)}.")
        return given

    @field_serializer("penalty")
    def _as_table(self, penalty: Penalty | None) -> dict[str, Any] | None:
        """The name and the numbers that are not the defaults."""
        if penalty is None:
            return None
        name = next(name for name, cls in penalties.REGISTRY.items() if cls is type(penalty))
        fields = dataclasses.fields(penalty)
        return {"name": name} | {f.name: n for f in fields if (n := getattr(penalty, f.name)) != f.default}

    @model_validator(mode="after")
    def _options_known(self) -> Self:
        if not self.build().has_loss and self.penalty is not None:
            raise InputError(f"a 'penalty' needs an objective, and {self.name} has none.", key="penalty")
        return self

    def build(self) -> Operator:
        """The operator object."""
        found, options = operators.get(self.operator), dict(self.model_extra or {})
        known = {f.name for f in dataclasses.fields(found)}
        for option, value in options.items():
            if option not in known:
                raise unknown_name(f"key of the problem {self.name}", option, {*known, *type(self).model_fields})
            if not isinstance(value, bool | int | float):
                raise InputError(f"{option!r} must be a number, got {shortened(repr(value), 60)}.", key=option)
        return dataclasses.replace(found, **options) if options else found

    @property
    def name(self) -> str:
        return class_name(self.operator) if isinstance(self.operator, str) else type(self.operator).__name__

    @property
    def title(self) -> str:
        return self.label or self._named(self.lam)

    @property
    def family(self) -> str:
        """The title without lambda; the label, where the operator is user-defined."""
        own = not isinstance(self.operator, str) or plugins.is_plugin(self.operator)
        return self.label if own and self.label else self._named(None)

    def _named(self, lam: float | None) -> str:
        options = self.model_extra or {}
        if not isinstance(self.operator, str):
            options = {f.name: getattr(self.operator, f.name) for f in dataclasses.fields(self.operator)}
        if self.penalty is not None:
            name, *numbers = self.content()["penalty"].values()
            options = {**options, "penalty": " ".join([name, *(f"{number:g}" for number in numbers)])}
        extras = [f"{name} = {written(value, 6)}" for name, value in options.items()]
        if self.intercept:
            extras.append("intercept" if self.intercept is True else f"intercept = {self.intercept:g}")
        extras += [f"λ = {lam:g}"] if lam else []
        extras += ["λ on all coordinates"] if self.regularize == "all" else []
        return ", ".join([self.name, *extras])


class Flaw(Section):
    """The numbers of a wrapper of links, by the names of its arguments; the wrapper checks them."""

    def __str__(self) -> str:
        return ", ".join(f"{name} = {value}" for name, value in self.model_dump(exclude_unset=True).items())


class Bursts(Flaw):
    """Losses in bursts: ``dsba.network.Bursty``."""

    to_bad: float
    to_good: float
    drop_good: float = 0.0
    drop_bad: float = 1.0


class Active(Flaw):
    """Who takes part when: ``dsba.network.Activation``; one of the three."""

    probability: float | None = None
    cycle: tuple[int, int] | None = None
    chain: tuple[float, float] | None = None


class NetworkSpec(Section):
    """A graph with its mixing matrix; ``edges`` is a file of node pairs and replaces ``graph``.

    ``mixing`` may be the path of a .npy file. In Python ``graph`` may be a topology, a networkx graph or a list of
    edges, and ``mixing`` an array. ``seed = "each"`` draws a random graph for each seed of the experiment.

    The other keys are flaws of the links (docs/howto/network.md): ``drop`` and ``one_way``, ``delay``, ``change`` (the
    probability of an edge in a round), ``graphs`` (that come one after the other: topologies, or files of node pairs),
    ``bursts = {to_bad = 0.1, to_good = 0.3}``, ``active = {probability = 0.7}`` (or ``cycle``, or ``chain``),
    ``compress``, ``memory`` and ``pull``. ``link_seed`` is the seed of all of them.
    """

    graph: str = "random"
    n_nodes: AtLeastOne = 10
    p: Annotated[float, Field(ge=0, le=1)] = 0.4
    seed: Seed | Literal["each"] = 0
    mixing: str = "laplacian"
    tau: Positive | None = None
    edges: str | None = None
    drop: Annotated[float, Field(ge=0, lt=1)] | None = None
    one_way: bool | None = None
    delay: AtLeastOne | tuple[Seed, Seed] | None = None
    change: Annotated[float, Field(gt=0, le=1)] | None = None
    bursts: Bursts | None = None
    active: Active | None = None
    compress: str | None = None
    memory: bool | None = None
    pull: Annotated[float, Field(gt=0, le=1)] | None = None
    link_seed: Seed | None = None
    label: str | None = None
    given: Topology | None = Field(default=None, exclude=True)
    graphs: tuple[Topology, ...] = Field(default=(), exclude=True)

    @model_validator(mode="before")
    @classmethod
    def _objects(cls, given: Any) -> Any:
        """Graphs and matrices become topologies."""
        if not isinstance(given, Mapping):
            return given
        content, mixing = dict(given), given.get("mixing", "laplacian")
        from_file = isinstance(mixing, str) and mixing.endswith(".npy")
        weights: dict[str, Any] = {"mixing": read_array(mixing) if from_file else mixing, "tau": content.get("tau")}
        if graphs := content.get("graphs"):
            if not isinstance(graphs, list | tuple):
                raise InputError(f"'graphs' must be a list, got {shortened(repr(graphs), 60)}.", key="graphs")
            content["graphs"] = tuple(Topology.of(graph, **weights) for graph in graphs)
            union = sorted({edge for graph in content["graphs"] for edge in graph.edges})
            content.setdefault("graph", Topology.from_edges(union, n_nodes=content["graphs"][0].n_nodes, **weights))
        graph = content.get("edges") or content.get("graph", "random")
        if isinstance(graph, str) and isinstance(weights["mixing"], str):
            return content
        drawn = ("n_nodes", "p", "seed") if not isinstance(content.get("edges"), str) else ()
        size = {"n_nodes": 10} if isinstance(graph, str) and graph in GRAPH_FAMILIES else {}
        topology = Topology.of(graph, **{**size, **{key: content[key] for key in drawn if key in content}, **weights})
        mixing = mixing if isinstance(mixing, str) else topology.mixing.name
        return content | {"given": topology, "graph": topology.name, "mixing": mixing, "n_nodes": topology.n_nodes}

    @field_validator("graph")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in (*GRAPH_FAMILIES, *UNNAMED):
            raise unknown_name("graph", name, GRAPH_FAMILIES)
        return name

    @model_validator(mode="after")
    def _buildable(self) -> Self:
        if self.given is None and self.mixing not in MIXINGS:
            wanted = f"{' or '.join(MIXINGS)}, or the path of a .npy file"
            raise InputError(f"'mixing' must be {wanted}, got {self.mixing!r}.", key="mixing")
        if self.seed == "each" and (self.graph != "random" or self.given is not None or self.edges):
            raise InputError('\'seed\' = "each" draws random graphs: it needs graph = "random".', key="seed")
        self.links(self.topology)
        return self

    @cached_property
    def topology(self) -> Topology:
        """The graph; of those that are drawn for each seed, the one of seed 0."""
        return self.drawn(0)

    def drawn(self, seed: int) -> Topology:
        """The graph of a run with this seed."""
        if self.given is not None:
            return self.given
        weights: dict[str, Any] = {"mixing": self.mixing, "tau": self.tau}
        if self.edges is not None:
            return Topology.from_edges(self.edges, **weights)
        chosen = seed if self.seed == "each" else self.seed
        return Topology.family(self.graph, self.n_nodes, p=self.p, seed=chosen, **weights)

    def shown(self, seeds: Sequence[int]) -> ShownNetwork | None:
        """The graph that the runs of all seeds have; None where each has another one."""
        return None if self.seed == "each" and len(seeds) > 1 else ShownNetwork.of(self.drawn(seeds[0]))

    def links(self, topology: Topology) -> Network | None:
        """The network with the flaws of its links; None where they have none."""
        net: Network = Simulator(topology)
        seed = self.link_seed or 0
        if self.change is not None or self.graphs:
            net = Changing(net, self.graphs, p=self.change, seed=seed)
        if self.delay is not None:
            net = Delayed(net, self.delay, seed=seed)
        if self.drop is not None:
            net = Lossy(net, self.drop, symmetric=not self.one_way, seed=seed)
        if self.bursts is not None:
            net = Bursty(net, **self.bursts.model_dump(), seed=seed)
        if self.active is not None:
            net = Activation(net, **self.active.model_dump(), seed=seed)
        if self.compress is not None:
            net = Compressed(net, self.compress, memory=self.memory is not False, step=self.pull or 1.0, seed=seed)
        return net if net.flaws else None

    @property
    def title(self) -> str:
        return self.label or self._named(self.topology.n_nodes)

    @property
    def family(self) -> str:
        """The title without the number of nodes; the label, where the graph or its matrix is user-defined."""
        return self._named(None) if self.given is None or not self.label else self.label

    def _named(self, n_nodes: int | None) -> str:
        """A random graph says how it was drawn; the usual seed 0 and the usual tau are not written out."""
        graph = Path(self.edges).stem if self.edges else self.graph
        drawn = {0: "", "each": ", a graph per seed"}.get(self.seed, f", seed = {self.seed}")
        known = self.given is None or "p" in self.model_fields_set  # an object does not say how it was drawn
        how = f" (p = {self.p:g}{drawn})" if graph == "random" and known else ""
        size = "" if n_nodes is None else f", N = {n_nodes}"
        scale = f" (tau = {self.tau:g})" if self.tau else ""
        return ", ".join([f"{graph}{how}{size}", self.mixing + scale, *self.flaws])

    @property
    def flaws(self) -> list[str]:
        """What is wrong with the links, in words."""
        delay = " to ".join(map(str, self.delay)) if isinstance(self.delay, tuple) else self.delay
        found = [f"{self.change:g} of the edges a round"] if self.change is not None else []
        found += [f"{len(self.graphs)} graphs in turn"] if self.graphs else []
        found += [f"{delay} rounds late"] if delay else []
        found += [f"{100 * self.drop:g}% {'one-way ' if self.one_way else ''}loss"] if self.drop else []
        found += [f"bursts of loss ({self.bursts})"] if self.bursts else []
        found += [f"resting nodes ({self.active})"] if self.active else []
        pull = f", pull {self.pull:g}" if self.pull else ""
        return found + ([self.compress + (" rows" if self.memory is False else "") + pull] if self.compress else [])


class Method(Budgets):
    """An algorithm, how it communicates, its step size; further keys are the algorithm's options.

    ``step_size`` is "tune", a rule's name such as "auto", or a number. A budget replaces the one of [stop]. ``grid``
    has the values that a search tries, by option: ``grid = {step_size = [0.1, 1.0]}``; all combinations are tried, and
    nothing else. ``bounds = {step_size = [0.01, 10.0]}`` lets the search choose this option between two numbers. In
    Python the algorithm may be an object; it has its own options, and its step size if that is a number.
    """

    model_config = ConfigDict(extra="allow", frozen=True, arbitrary_types_allowed=True)

    algorithm: Annotated[str | Algorithm, _known(algorithms.get), AS_TEXT]
    label: str = ""
    step_size: Positive | str = "tune"
    communication: Literal["dense", "compressed", "sparse", "cached"] = "dense"
    grid: dict[str, Annotated[tuple[AtLeastOne | Positive, ...], Field(min_length=1)]] | None = None
    bounds: dict[str, tuple[Positive, Positive]] | None = None

    @model_validator(mode="before")
    @classmethod
    def _own_step(cls, given: Any) -> Any:
        """An object's number is its step size, unless another one is asked for."""
        algorithm = given.get("algorithm") if isinstance(given, Mapping) else None
        if not isinstance(algorithm, Algorithm) or isinstance(algorithm.step_size, str):
            return given
        return {"step_size": algorithm.step_size, **given}

    @model_validator(mode="after")
    def _options_known(self) -> Self:
        grid = self.grid or {}
        for option, values in grid.items():
            if not self._is_whole(option, "grid"):
                grid[option] = tuple(map(float, values))  # 1 and 1.0 are one candidate with one identifier
        for option, (low, high) in (self.bounds or {}).items():
            self._is_whole(option, "bounds")
            if not low < high:
                raise InputError(f"the bounds of {option!r} must be two rising numbers, got {low:g} and {high:g}.")
        self.variants()
        return self

    def _is_whole(self, option: str, where: str) -> bool:
        """Whether an option takes whole numbers; an error where the algorithm has no such option."""
        known = {f.name: set(WORD_PATTERN.findall(str(f.type))) for f in dataclasses.fields(self.build(1.0))}
        require_known(f"option in the {where} of {self.title}", option, known)
        return "int" in known[option] and "float" not in known[option]

    def __hash__(self) -> int:
        return hash(json.dumps(self.content(), sort_keys=True))

    @property
    def name(self) -> str:
        return self.algorithm if isinstance(self.algorithm, str) else type(self.algorithm).__name__

    @property
    def title(self) -> str:
        own = self.name if isinstance(self.algorithm, str) else self.algorithm.name or self.name
        return self.label or (class_name(own) if ":" in own else own.upper()) + COMMUNICATION[self.communication]

    def shown(self) -> ShownMethod:
        """What a report shows. The settings are all options that a sweep may go over: numbers, words and switches."""
        built = self.build("auto")
        options = {f.name: getattr(built, f.name) for f in dataclasses.fields(built) if f.name != "step_size"}
        settings = {name: value for name, value in options.items() if isinstance(value, bool | int | float | str)}
        iterates = json.dumps(self.same_iterates().content(), sort_keys=True)
        return ShownMethod(title=self.title, iterates=iterates, algorithm=class_name(self.name), settings=settings)

    @property
    def tuned(self) -> bool:
        return self.step_size == "tune"

    def build(self, step_size: float | str = "auto", **parameters: Any) -> Algorithm:
        """The algorithm object with this step size."""
        how = {} if self.communication == "dense" else {"communication": self.communication}
        options = {"step_size": step_size, **how, **(self.model_extra or {}), **parameters}
        if isinstance(self.algorithm, str):
            return algorithms.get(self.algorithm, **options)
        known = {f.name for f in dataclasses.fields(self.algorithm)}
        for option in options:
            require_known(f"option of {self.title}", option, known)
        return dataclasses.replace(self.algorithm, **options)

    def search_ranges(self, problem: Problem, topology: Topology) -> list[SearchRange]:
        """What a search may choose: a grid, or the open constants that were not set; ``bounds`` replaces theirs."""
        built, given = self.build(), self.model_extra or {}
        usual = {f.name: f.default for f in dataclasses.fields(built)}
        free = [n for n in usual if n == "step_size" or (n not in given and getattr(built, n) == usual[n])]
        found = {one.name: one for one in built.search_ranges(problem, topology) if one.name in free}
        if self.grid is not None:
            found = {name: SearchRange.closed(name, values) for name, values in self.grid.items()}
        known = built.resolved(problem, topology)
        for name, (low, high) in (self.bounds or {}).items():
            start = found[name].start if name in found else (getattr(known, name),)
            kind: ConstantKind = "integer" if self._is_whole(name, "bounds") else "real"
            found[name] = SearchRange(name, kind, (), low, high).beginning(start)
        return list(found.values())

    def variants(self) -> list[Algorithm]:
        """What is known to be run before there is a problem: the combinations of the grid, or the algorithm itself."""
        if not (self.grid and self.tuned):
            return [self.build("auto" if self.tuned else self.step_size)]
        return [self.build(**dict(zip(self.grid, chosen, strict=True))) for chosen in product(*self.grid.values())]

    def why_not(self, problem: Problem, net: Network) -> str | None:
        """Why the method, or a candidate of its grid, does not apply; None if it does."""
        return next(filter(None, (algorithm.why_not(problem, net) for algorithm in self.variants())), None)

    def same_iterates(self) -> Method:
        """The method whose iterates are the same: deltas change what is sent, never the result."""
        same = "compressed" if self.communication == "compressed" else "dense"
        return self.model_copy(update={"communication": same, "label": ""})


class Stop(Budgets):
    """When runs end. ``tol`` is the relative residual; ``gap_tol`` counts where there is an objective."""

    max_passes: Positive = 60.0
    gap_tol: Positive | None = None
    tol: Positive | None = None
    record_every: Positive = 1.0
    record_first: Positive | None = 0.0625  # stochastic methods have moved far before their first pass

    @field_validator("record_first", mode="before")
    @classmethod
    def _none_in_a_file(cls, given: Any) -> Any:
        """A file has no None: it says false."""
        return None if given is False else given


class Tune(Section):
    """Successive halving: all candidates for a few passes, the better half for twice as many, the last as a run."""

    passes: Positive | None = None  # of the first round; by default a quarter of max_passes or more
    by: TuneCost = "passes"  # what reaching the tolerance should cost least of; time is modelled on the link
    seeds: tuple[Seed, ...] = ()  # the seeds to judge by; the experiment's first one by default
