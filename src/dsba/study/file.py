"""The study file: what all sites agreed on, the same at every site. Nothing in it is code.

Its hash is taken over the parsed content. Two files that mean the same have the same hash, whatever their comments and
their order of keys are.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import UTC, date, datetime
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, PlainValidator, ValidationError, model_validator

from dsba import algorithms, operators
from dsba.errors import InputError, require_known, shortened, unknown_name, validation_sentence
from dsba.fitting.disclosure import SHARES, Guards
from dsba.fitting.spec import FOR_ARRAYS, OPTIONS, FitSpec
from dsba.graph.topology import GRAPH_FAMILIES, Topology
from dsba.network.tls.pinned import Member
from dsba.storage.atomic import content_of
from dsba.study import keys
from dsba.tables.elastic_net import PathOptions
from dsba.tables.models import MODELS
from dsba.tables.terms import SITE, ModelTerms, stated
from dsba.types import Level

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
LABEL = "[A-Za-z0-9-]{1,63}"  # between the dots of a host's name
ADDRESS = re.compile(rf"(\[[0-9a-fA-F:.]+\]|{LABEL}(?:\.{LABEL})*\.?):([0-9]{{1,5}})")
SHOWN = 40  # digits of the hash that people compare
MOST_STUDY_BYTES = 1 << 20

ELSEWHERE = {"graph": "graph", "mixing": "mixing", "guards": "[guards]", "levels": "[columns]"}
"""Where a study has the options of a fit that do not stand under [model]."""
IN_MODEL = [name for name, one in OPTIONS.items() if one.data != FOR_ARRAYS and name not in ELSEWHERE]

PositiveCount = Annotated[int, Field(ge=1, strict=True)]


def parse_address(text: str) -> tuple[str, int]:
    """Host and port."""
    found = ADDRESS.fullmatch(text)
    if not found or not 0 < int(found[2]) < 65536:
        raise InputError(f"an address must be host:port with a port from 1 to 65535, got {shortened(text)!r}.")
    return found[1].strip("[]"), int(found[2])


class StudySection(BaseModel):
    """A table of the file: unknown keys are errors, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class StudySite(StudySection):
    """Who takes part."""

    name: str
    address: str | None = None
    """ "host:port" where the site listens; a site without one only dials out."""
    fingerprint: str
    """The SHA-256 of the certificate."""
    certificate: str

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if not NAME.fullmatch(self.name):
            raise ValueError(f"the name of a site has letters, digits, dots and dashes, got {shortened(self.name)!r}")
        if self.address is not None:
            parse_address(self.address)
        if keys.name_of(keys.parse(self.certificate)) != self.name:
            raise ValueError(f"the certificate of {self.name} was made for another site")
        if keys.fingerprint(base64.b64decode(self.certificate)) != self.fingerprint:
            raise ValueError(f"the fingerprint of {self.name} is not that of its certificate: copy both lines anew")
        return self

    @property
    def place(self) -> tuple[str, int] | None:
        return None if self.address is None else parse_address(self.address)


class Rotation(StudySection):
    """A key that replaces another one of the same site, by the old key's signature."""

    certificate: str
    """The new one."""
    signature: str

    @model_validator(mode="after")
    def _checked(self) -> Self:
        keys.parse(self.certificate)
        bytes.fromhex(self.signature)
        return self

    @property
    def signed(self) -> tuple[bytes, bytes]:
        """The certificate in DER, and the old key's signature."""
        return base64.b64decode(self.certificate), bytes.fromhex(self.signature)


class DescribeSection(StudySection):
    """Table 1 of the columns of the study, before the model."""

    by: str | None = None
    """A column whose levels become columns of the table; "site" for a column of each site that allows site totals."""


class CurvesSection(StudySection):
    """Kaplan-Meier curves of a Cox model's outcome, and the log-rank test, after the model."""

    by: str | None = None
    """A column whose levels have a curve each."""


class ElasticNetSection(StudySection):
    """A path of elastic nets with the model's formula, after the model."""

    l1_ratio: float = 1.0
    lambdas: tuple[float, ...] | None = None
    folds: int | None = None


def model_of(section: Any) -> FitSpec:
    """The specification that [model] says. Nothing in it is code: operators and algorithms are named."""
    if not isinstance(section, Mapping):
        raise InputError("the model must be a table of keys.")
    for name in section:
        if name in ELSEWHERE:
            raise InputError(f"the key {name} does not stand under [model]: use {ELSEWHERE[name]} of the study.")
        require_known("key", name, IN_MODEL)
    spec = FitSpec(**section)
    if not spec.of_tables:
        raise InputError("a study needs a formula, or a target with features or all_features.")
    lists = {"operator": [*operators.names(), *operators.ALIASES, *MODELS], "algorithm": [*algorithms.names(), "auto"]}
    for kind, known in lists.items():
        require_known(kind, getattr(spec, kind), known)
    return spec


def section_of(spec: FitSpec) -> dict[str, Any]:
    """[model] in the types of TOML, which has no None."""
    values = {name: getattr(spec, name) for name in IN_MODEL}
    return {name: value for name, value in values.items() if value is not None}


def named_guards(section: Any) -> Guards:
    """The disclosure guards that a section of a file names."""
    if not isinstance(section, Mapping):
        raise InputError("the guards must be a table of numbers.")
    return Guards.given(section)


def guards_of(section: Any) -> Guards:
    """The disclosure guards; a site may not loosen them, and the study names them for all."""
    guards = named_guards(section)
    if min(number for name, number in asdict(guards).items() if name not in SHARES) < 1:
        raise InputError("the guards of a study must be integers >= 1.")
    return guards


class Study(StudySection):
    """Everything that the sites agreed on."""

    name: str
    ends: date
    """The last day on which a site takes part."""
    runs: PositiveCount = 10
    """How many runs a site allows with one data set."""
    graph: str | tuple[tuple[str, str], ...] = "ring"
    """A family's name, or pairs of sites that talk to each other."""
    mixing: str = "laplacian"
    columns: dict[str, str | tuple[Level, ...]]
    """For every column of the model, "number" or its levels."""
    model: Annotated[FitSpec, PlainValidator(model_of), PlainSerializer(section_of)]
    guards: Annotated[Guards, PlainValidator(guards_of), PlainSerializer(asdict)] = Guards()
    evaluates: str | None = None
    """The fingerprint of a stored model. The sites evaluate it on their tables and fit nothing."""
    describe: DescribeSection | None = None
    curves: CurvesSection | None = None
    elastic_net: ElasticNetSection | None = None
    by_site: bool = False
    """Whether sites that allow site totals show the same model of their own rows, after the fit."""
    sites: Annotated[tuple[StudySite, ...], Field(min_length=2)]
    rotations: tuple[Rotation, ...] = ()
    """Not part of the hash: the keys that the hash stands for have signed them."""

    @model_validator(mode="after")
    def _checked(self) -> Self:
        names = [site.name for site in self.sites]
        for what in ("name", "fingerprint"):
            values = [getattr(site, what) for site in self.sites]
            if len(set(values)) < len(values):
                raise ValueError(f"two sites have the same {what}")
        if isinstance(self.graph, str) and self.graph.partition(":")[0] not in GRAPH_FAMILIES:
            raise unknown_name("graph", self.graph, GRAPH_FAMILIES)
        if not isinstance(self.graph, str) and (strangers := {n for pair in self.graph for n in pair} - set(names)):
            raise ValueError(f"the graph names {sorted(strangers)[0]!r}, which is not a site of the study")
        _ = self.chains  # an error if a key was not replaced as it must be
        terms = self.terms
        wanted = {column for column in terms.columns if column != SITE}
        if odd := sorted(wanted - set(self.columns)):
            raise ValueError(f"the column {odd[0]!r} is not described under [columns]")
        if odd := sorted(set(self.columns) - wanted):
            raise ValueError(f"the column {odd[0]!r} is under [columns], but not in the model")
        if self.describe is not None and self.describe.by not in (None, SITE, *self.columns):
            raise ValueError(f"the column {self.describe.by!r} of [describe] is not under [columns]")
        self._check_further()
        labels = terms.formula.response if terms.of_classes else ()
        for column, levels in self.columns.items():
            if isinstance(levels, str) and levels != "number":
                raise ValueError(f'the column {column!r} must be "number" or a list of levels, got {levels!r}')
            if isinstance(levels, str) and column in (*labels, *terms.formula.factors):
                raise ValueError(f"the column {column!r} is a factor or a label: list all its levels under [columns]")
        for n, m in self.topology.edges:
            a, b = self.sites[n], self.sites[m]
            if a.address is None and b.address is None:
                raise ValueError(f"{a.name} and {b.name} are neighbours and both only dial out: one needs an address")
        return self

    def _check_further(self) -> None:
        """An error where the model has no curves or no path, or where these cannot be had from what it says."""
        spec = self.model
        if (self.curves or self.elastic_net) and self.evaluates is not None:
            raise ValueError("a study that evaluates a stored model has no [curves] and no [elastic_net]")
        if (self.curves or self.elastic_net) and (spec.weights or spec.offset or spec.exposure):
            raise ValueError("[curves] and [elastic_net] are for models without weights, offset and exposure")
        if self.curves is not None:
            if spec.operator != "cox":
                raise ValueError(f"[curves] are of the outcome of a cox model, got {spec.operator!r}")
            if self.curves.by is not None and self.curves.by not in self.levels:
                raise ValueError(f"the column {self.curves.by!r} of [curves] has no levels under [columns]")
        if self.elastic_net is not None:
            PathOptions.checked(spec.operator, **self.elastic_net.model_dump())

    @property
    def shows_sites(self) -> bool:
        """Whether sites whose policies allow it show something of their own rows."""
        return self.by_site or self.describes_sites

    @property
    def describes_sites(self) -> bool:
        """Whether that is in Table 1."""
        return self.describe is not None and self.describe.by == SITE

    @property
    def levels(self) -> dict[str, tuple[Level, ...]]:
        """The levels of every column that has some."""
        return {column: levels for column, levels in self.columns.items() if not isinstance(levels, str)}

    @cached_property
    def topology(self) -> Topology:
        if isinstance(self.graph, str):
            return Topology.of(self.graph, len(self.sites), seed=self.model.seed, mixing=self.mixing)
        found = Topology.of([(self.rank(a), self.rank(b)) for a, b in self.graph], mixing=self.mixing)
        if found.n_nodes != len(self.sites):
            raise ValueError("the graph leaves sites out: every site needs a neighbour")
        return found

    @cached_property
    def spec(self) -> FitSpec:
        """What all sites fit. The first level is the reference level, and of two labels the second is the event."""
        graph = self.graph if isinstance(self.graph, str) else self.topology
        stands = replace(self.model, graph=graph, mixing=self.mixing, guards=self.guards, levels=self.levels)
        return stated(stands, {self.name: tuple(self.columns)})

    @property
    def terms(self) -> ModelTerms:
        return ModelTerms.of(self.spec)

    @cached_property
    def chains(self) -> tuple[tuple[bytes, ...], ...]:
        """Of every site, the certificates that it has had: the one of the study first, the one that holds last."""
        chains = [[base64.b64decode(site.certificate)] for site in self.sites]
        used = {keys.public_bytes(chain[0]) for chain in chains}
        for new, signature in (one.signed for one in self.rotations):
            name = keys.name_of(keys.parse(keys.text_of(new)))
            chain = chains[self.rank(name)]
            if odd := keys.complaint_of_successor(chain, new, signature):
                raise ValueError(f"the key of {name} is not replaced: {odd}")
            if keys.public_bytes(new) in used:
                raise ValueError(f"the key of {name} is not replaced: the new key was used before")
            used.add(keys.public_bytes(new))
            chain.append(new)
        return tuple(map(tuple, chains))

    @cached_property
    def members(self) -> tuple[Member, ...]:
        return tuple(Member(s.name, s.place, chain[-1]) for s, chain in zip(self.sites, self.chains, strict=True))

    def rank(self, site: str) -> int:
        """The number of a site by its name."""
        names = [one.name for one in self.sites]
        require_known("site", site, names)
        return names.index(site)

    @cached_property
    def content(self) -> bytes:
        """What the file says, in one form; ``from_content`` reads it."""
        return _plain_json(self.model_dump(mode="json", exclude={"rotations"}))

    @property
    def rotations_content(self) -> bytes:
        """The rotations, for a file beside that with the content."""
        return _plain_json([one.model_dump() for one in self.rotations])

    @classmethod
    def from_content(cls, data: bytes, rotations: bytes = b"[]") -> Study:
        return cls.model_validate({**json.loads(data), "rotations": json.loads(rotations)})

    @cached_property
    def digest(self) -> bytes:
        """The hash of the parsed content."""
        return hashlib.sha256(self.content).digest()

    @property
    def hash(self) -> str:
        """The hash as people compare it, in groups of four digits."""
        text = self.digest.hex()[:SHOWN]
        return "-".join(text[at : at + 4] for at in range(0, SHOWN, 4))

    def require_approved(self, approved: str) -> None:
        """An error unless the hash was approved."""
        if re.sub(r"[-\s]", "", approved).lower() != self.hash.replace("-", ""):
            raise InputError(
                f"the approved hash is {shortened(approved)}, and this study's is {self.hash}: nothing of the data has "
                "left this site. Compare the hash with the other sites, and approve the study that you have read."
            )

    def require_open(self) -> None:
        """An error after the last day of the study."""
        if datetime.now(UTC).date() > self.ends:
            raise InputError(f"the study {self.name} ended on {self.ends}: agree on a new one.")


def _plain_json(values: Any) -> bytes:
    return json.dumps(values, sort_keys=True, separators=(",", ":")).encode()


def load(path: Path) -> Study:
    """The study of a file; an error says which key is wrong."""
    data = content_of(path, "the study ")
    if len(data) > MOST_STUDY_BYTES:
        raise InputError(f"{path} has {len(data)} bytes: a study file has at most {MOST_STUDY_BYTES}.")
    return parse(data, str(path))


def parse(data: bytes, name: str) -> Study:
    """The study of a file's bytes; an error says which key of ``name`` is wrong."""
    try:
        content = tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:  # not TOML, or a number of thousands of digits
        raise InputError(f"{name} is no TOML file: {shortened(error)}.") from None
    try:
        return Study.model_validate(content)
    except ValidationError as error:
        raise InputError(f"{name}: {first_error(error)}") from None
    except RecursionError:
        raise InputError(f"{name} is nested too deeply.") from None


def first_error(error: ValidationError) -> str:
    """The first thing that is wrong in a file."""
    found = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in found["loc"])
    if found["type"] == "extra_forbidden":
        return f"the key {where} is not known."
    if found["type"] == "missing":
        return f"the key {where} is missing."
    return f"{where}: {validation_sentence(found)}" if where else validation_sentence(found)
