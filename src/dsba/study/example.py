"""The study file that `dsba study example` prints."""

from __future__ import annotations

import tomli_w

STUDY_EXAMPLE = """\
# A study: the same file at every site. `dsba study check study.toml` prints its hash; all sites compare it.
name = "readmission"
ends = 2099-12-31              # no site takes part after this day
runs = 10                      # how many runs a site allows with one data set

# Who talks to whom: "ring", "complete", "path", "star", or pairs of sites. Nobody else talks to each other.
graph = [["aarhus", "bergen"], ["bergen", "cork"], ["cork", "aarhus"]]

# The columns of the model: "number", or all levels that may occur, in order. No other column is read.
[columns]
readmitted = ["no", "yes"]     # the outcome; the second label is the event
age = "number"
sex = ["F", "M"]               # the first level is the reference

[model]
formula = "readmitted ~ age + C(sex)"
operator = "logistic"          # logistic, poisson or linear
lam = 0.0                      # a penalty; without one the model has standard errors
algorithm = "newton"           # discloses totals only; dsba, extra, ... disclose iterates to neighbours
tol = 1e-12
seed = 0
missing = "drop"               # error, drop, mean or indicator
test_share = 0.0               # of each site's rows, held out to measure AUC and calibration by counts in bins

# What every site asks for before its rows enter the model.
[guards]
sites = 3
rows = 10
rows_per_parameter = 10
rows_per_level = 3

# One table for each site, as `dsba study key --site NAME --address HOST:PORT` prints it there.
# A site without an address only dials out: it needs no open port if its neighbours listen.
{sites}"""


def entry(name: str, address: str | None, fingerprint: str, certificate: str) -> str:
    """The lines of one site."""
    place = {} if address is None else {"address": address}
    return tomli_w.dumps({"sites": [{"name": name, **place, "fingerprint": fingerprint, "certificate": certificate}]})


def example() -> str:
    """With certificates of sites that nobody has the keys of."""
    places = {"aarhus": "aarhus.example.org:8443", "bergen": "bergen.example.org:8443", "cork": None}
    made = [entry(name, place, *SAMPLES[name]) for name, place in places.items()]
    return STUDY_EXAMPLE.replace("{sites}", "\n".join(made))


SAMPLES: dict[str, tuple[str, str]] = {
    "aarhus": (
        "52e231da338d8b31e17439215fae7b116674dd4169d916f114116066a6ff7c68",
        "MIH1MIGooAMCAQICFCNeHfQlLJR3h7gTRjGaoYHoYjZ1MAUGAytlcDARMQ8wDQYDVQQDDAZhYXJodXMwIBcNMjYwMTAxMDAw"
        "MDAwWhgPMjEyNTEyMDgwMDAwMDBaMBExDzANBgNVBAMMBmFhcmh1czAqMAUGAytlcAMhADh1BB8V/8RkF5F/1oL2Clbavn2x"
        "svrXbnmbcExHx/YgoxAwDjAMBgNVHRMBAf8EAjAAMAUGAytlcANBABu7rEeZwZ81pnbx/uCHe1cIJ5czY47bDSU580q3NtU6"
        "DPpYzMMdbtt0Nl/4v6/ySsnOMJXDSdxoM7m3QBbNHAA=",
    ),
    "bergen": (
        "464e68aaddd6539bc820fc2ca6b7a85cf5c2b2a620670e798403726a04121ef4",
        "MIH1MIGooAMCAQICFGobQsNbW9F+pl2lm0HYQsfsYJpCMAUGAytlcDARMQ8wDQYDVQQDDAZiZXJnZW4wIBcNMjYwMTAxMDAw"
        "MDAwWhgPMjEyNTEyMDgwMDAwMDBaMBExDzANBgNVBAMMBmJlcmdlbjAqMAUGAytlcAMhAGpO+f5plG5b1VUrzYN0ETaw3fVj"
        "FoZTuoI42jYSYVWuoxAwDjAMBgNVHRMBAf8EAjAAMAUGAytlcANBAPFnIvCUygSoBxQddopjSDiN5zEbu7l+nHpIst8nOJm8"
        "X0l2Oa6MNi8u4a/1saXXj50Bq+ArrOzAlsXkOWUrKAk=",
    ),
    "cork": (
        "7a905defb532f3347909be2b15cde49da67a712f1084c5415aa628bceb703494",
        "MIHxMIGkoAMCAQICFHN8W6B66YeX9oqNNQ8wSE+NevHpMAUGAytlcDAPMQ0wCwYDVQQDDARjb3JrMCAXDTI2MDEwMTAwMDAw"
        "MFoYDzIxMjUxMjA4MDAwMDAwWjAPMQ0wCwYDVQQDDARjb3JrMCowBQYDK2VwAyEAhKiKBMBcOjP2ItJsuhzMoB77cERSZhs0"
        "hcJHmXH4DvujEDAOMAwGA1UdEwEB/wQCMAAwBQYDK2VwA0EA53k0z+jX7ZJtzHqueghsu+I61cwQ+qIdbXpDJ42iD93WZQQ5"
        "doJownjBJdYnbetorh+wgG63+jNJAZpvo/zfAQ==",
    ),
}
"""Fingerprints and certificates of the example's sites."""
