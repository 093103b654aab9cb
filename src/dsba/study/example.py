"""The study file that `dsba study example` prints."""

from __future__ import annotations

EXAMPLE = """\
# A study: the same file at every site. `dsba study check study.toml` prints its hash; all sites compare it.
name = "readmission"
ends = 2030-12-31              # no site takes part after this day
runs = 10                      # how many runs a site allows with one data set

# Who talks to whom: "ring", "complete", "path", "star", or pairs of sites. Nobody else talks to each other.
graph = [["aarhus", "bergen"], ["bergen", "cork"], ["cork", "aarhus"]]

# The columns of the model: "number", or all levels that may occur. No other column is read.
[columns]
readmitted = ["no", "yes"]     # the outcome; the second label is the event
age = "number"
sex = ["F", "M"]

[model]
formula = "readmitted ~ age + C(sex)"
operator = "logistic"          # logistic, poisson or linear
lam = 0.0                      # a penalty; without one the model has standard errors
algorithm = "newton"           # discloses totals only; dsba, extra, ... disclose iterates to neighbours
tol = 1e-12
seed = 0
missing = "drop"               # error, drop, mean or indicator

# What every site asks for before its rows enter the model.
[guards]
sites = 3
rows = 10
rows_per_parameter = 10
rows_per_level = 3

# One table for each site, as `dsba study key --site NAME --address HOST:PORT` prints it there.
# A site without an address only dials out: it needs no open port if its neighbours listen.
{sites}"""

ENTRY = """\
[[sites]]
name = "{name}"
{address}fingerprint = "{fingerprint}"
certificate = "{certificate}"
"""


def entry(name: str, address: str | None, fingerprint: str, certificate: str) -> str:
    """The lines of one site."""
    line = "" if address is None else f'address = "{address}"\n'
    return ENTRY.format(name=name, address=line, fingerprint=fingerprint, certificate=certificate)


def example() -> str:
    """With certificates of sites that nobody has the keys of."""
    places = {"aarhus": "aarhus.example.org:8443", "bergen": "bergen.example.org:8443", "cork": None}
    made = [entry(name, place, *SAMPLES[name]) for name, place in places.items()]
    return EXAMPLE.replace("{sites}", "\n".join(made))


SAMPLES: dict[str, tuple[str, str]] = {
    "aarhus": (
        "cccc5776af3bcfab1e167368ced1795f6c77ccf795e6f2cea0a98653970957af",
        "MIHzMIGmoAMCAQICFEITBBsKpdAIvhGfXZV2zY7m3cvhMAUGAytlcDARMQ8wDQYDVQQDDAZhYXJodXMwHhcNMjYwMTAxMDAw"
        "MDAwWhcNMzUxMjMwMDAwMDAwWjARMQ8wDQYDVQQDDAZhYXJodXMwKjAFBgMrZXADIQAulUvSPYbfq6iHnIPkfc2dyQx1Jjmi"
        "c51vEQMJZx0zP6MQMA4wDAYDVR0TAQH/BAIwADAFBgMrZXADQQDPcjLb+TH75q2RwiuiIakQMKMjODMGBDm+wIk9O1gz7imz"
        "SRtpaiMzMs7fTQzOe4/FUcq6AEurdt02ZqyW0AkP",
    ),
    "bergen": (
        "b55f8d5a87d698e918c6ec71dd9920f2ba18e9b4473c1d9acdd47dbd79715951",
        "MIHzMIGmoAMCAQICFCvXdcz0Li3ciCoVU1iGwsmjh7e3MAUGAytlcDARMQ8wDQYDVQQDDAZiZXJnZW4wHhcNMjYwMTAxMDAw"
        "MDAwWhcNMzUxMjMwMDAwMDAwWjARMQ8wDQYDVQQDDAZiZXJnZW4wKjAFBgMrZXADIQCKDF7hA2Skhro6tc5iSpD+kfG+AwS2"
        "YaKTDE7R3OvzQaMQMA4wDAYDVR0TAQH/BAIwADAFBgMrZXADQQB3C7l1P4RTmB2gexmLJ7bjVo3PBFk+qkKAdDf+cl/xhRew"
        "hKoQSks7dHMHSyCvQJeXj0kP9TlUiZb3a+iiVV4N",
    ),
    "cork": (
        "4a01cf59237e973699a53191b43fc64793bfd1fb3f755e7cd268dfbd486a0543",
        "MIHvMIGioAMCAQICFHpi2uyVL07k+iBNYIYASrgP1b9XMAUGAytlcDAPMQ0wCwYDVQQDDARjb3JrMB4XDTI2MDEwMTAwMDAw"
        "MFoXDTM1MTIzMDAwMDAwMFowDzENMAsGA1UEAwwEY29yazAqMAUGAytlcAMhAOmYmcnKNNxcmNnzM5iP8r1qnRaQ18OULlKJ"
        "YAYU+xmEoxAwDjAMBgNVHRMBAf8EAjAAMAUGAytlcANBAMu8BdYnAlLD6GspJrwRrAai1uY6/jYPD6vCuLp+C8lB5TObhAxK"
        "GLXvQx/9Jn7VORFqsW47m8b3edW502yZTgI=",
    ),
}
"""Fingerprints and certificates of the example's sites."""
