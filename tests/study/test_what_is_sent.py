"""What a site of a study sends: nothing in it is a fact of its own."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from test_study import together

from dsba.fitting import FitSpec
from dsba.network.tls.protocol import SIGNATURE_BYTES
from dsba.network.tls.site_network import SiteNetwork
from dsba.network.tls.transcript import HASH_BYTES
from dsba.network.transport import PARCEL
from dsba.study.join import Seat
from dsba.study.trial import arrange
from dsba.tables.design import held_out

# What a site sends -----------------------------------------------------------------------------------

FACTS = {"aarhus": (97, 21, 613.0, "ABC"), "bergen": (89, 25, 617.0, "ABC"), "cork": (83, 14, 619.0, "AB")}
"""Of each site: its rows, the rows without an age, its number of beds, and the wards that occur."""


@pytest.fixture
def odd_tables(tmp_path):
    """Tables whose sites differ in every fact: rows, missing values, levels and a column of one value at each site."""
    rng, files = np.random.default_rng(1), []
    for name, (rows, gaps, beds, wards) in FACTS.items():
        age = rng.integers(20, 90, rows).astype(float)
        event = rng.random(rows) < 1 / (1 + np.exp(-0.05 * (age - 55)))
        age[rng.permutation(rows)[:gaps]] = np.nan
        table = pd.DataFrame({"age": age, "beds": beds, "ward": rng.choice(list(wards), rows)})
        table["readmitted"] = np.where(event, "yes", "no")
        files.append(tmp_path / f"{name}.csv")
        table.to_csv(files[-1], index=False)
    return files


def facts_of(file, rank, share):
    """All counts of a site, and half of the bits of its only value of a column; and that value."""
    table = pd.read_csv(file)
    out = held_out(np.unique(table["readmitted"], return_inverse=True)[1], share, 0, rank)
    kept, tested = table[~out], table[out].dropna()
    usable = kept.dropna()
    counts = [n for column in ("ward", "readmitted") for n in usable[column].value_counts()]
    counts += [len(kept), len(kept) - len(usable), len(usable), *([len(tested)] if share else [])]
    value = usable["beds"].to_numpy(float)[:1]
    return {float(count) for count in counts} | {value.view("<u4").max().item()}, {value.item()}


def parts_of(message):
    """What a message passes on: a part of each site in it, or a single part that goes along a tree."""
    parts, rest = [], message
    while len(rest) >= PARCEL.size:
        rank, length = PARCEL.unpack_from(rest)
        parts.append(rest[PARCEL.size : PARCEL.size + length])
        rest = rest[PARCEL.size + length :]
        if rank >= len(FACTS) or len(parts[-1]) < length:
            return [message]
    return [message] if rest else parts


def numbers_in(message):
    """All numbers in what a site passes to a neighbour, however they are written: as JSON, doubles or integers."""
    found = set()
    passed = parts_of(message)
    signed = [part[SIGNATURE_BYTES:] for part in passed] + [part[SIGNATURE_BYTES + HASH_BYTES :] for part in passed]
    for part in passed + signed:
        try:
            found |= set(_plain_numbers(json.loads(part)))
        except ValueError:
            halves = np.frombuffer(part, "<u8").reshape(2, -1) if len(part) % 16 == 0 else np.zeros((2, 0), "<u8")
            whole = ((int(high) << 64) + int(low) for high, low in zip(*halves, strict=True))
            found |= set(np.frombuffer(part, "<f8").tolist()) if len(part) % 8 == 0 else set()
            found |= {float(n * 2**k // (n & -n)) for n in whole if n for k in range(12)}  # a multiple of any unit
    return found


def _plain_numbers(value):
    """The numbers within lists and tables of JSON."""
    if isinstance(value, int | float):
        return [float(value)]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [number for part in parts for number in _plain_numbers(part)]


@pytest.mark.parametrize("share", [0.0, pytest.param(0.2, marks=pytest.mark.full)])
def test_nothing_that_a_site_sends_is_a_fact_of_its_own(share, odd_tables, tmp_path, monkeypatch):
    """From start-up on. Without masks all facts of cork are found in what it sends; with them none is.

    And what is not masked is the same at all sites, but for names, keys and clocks: so it tells nothing of any of them.
    """
    model = {"formula": "readmitted ~ age + beds + C(ward)", "algorithm": "newton", "missing": "drop"}
    model["test_share"] = share
    study = arrange(odd_tables, FitSpec(**model, graph="ring"), tmp_path / "study", runs=2)
    counts, values = facts_of(odd_tables[2], 2, share)
    sent, said = [], {}
    for name in ("share", "gather", "largest"):
        monkeypatch.setattr(SiteNetwork, name, _listened(getattr(SiteNetwork, name), said))
    real_send = SiteNetwork.send

    def send(net, peer, message, purpose):
        if net.rank == 2:
            sent.append(message)
        real_send(net, peer, message, purpose)

    monkeypatch.setattr(SiteNetwork, "send", send)
    monkeypatch.setattr("dsba.tables.intervals.RANDOM_WORDS", 2)  # a larger random word could be a value by chance
    for least, wanted in ((4, counts), (3, set())):
        monkeypatch.setattr("dsba.network.tls.site_network.MASKED_FROM", least)
        sent.clear()
        said.clear()
        found, _ = together(
            [
                Seat(study, name, tmp_path / "study" / f"{name}.pem", file, tmp_path / f"{least}-{name}", patience=60.0)
                for name, file in zip(FACTS, odd_tables, strict=True)
            ]
        )
        assert not any(isinstance(results, Exception) for results in found), found
        assert set().union(*map(numbers_in, sent)) & (counts | values) == wanted
    assert [name for name, _ in said[1]] == [name for name, _ in said[2]]
    assert "share" in {name for name, _ in said[1]}
    for (question, bergen), (_, cork) in zip(said[1], said[2], strict=True):
        assert bergen == cork, question


def _listened(ask, said):
    """``ask``, and what it is given is kept by site, without what is each site's own and not of its data."""

    def listened(net, value, *more, **options):
        told = value.tolist() if isinstance(value, np.ndarray) else json.loads(json.dumps(value))
        if ask.__name__ == "largest" and len(told) <= 2:
            told = None  # a clock, or what is decided by one
        if isinstance(told, dict) and "signature" in told:
            told = sorted(told)
        text = json.dumps(told).replace(f'"{net.place.name}"', '"a site"')
        said.setdefault(net.rank, []).append((ask.__name__, text))
        return ask(net, value, *more, **options)

    return listened
