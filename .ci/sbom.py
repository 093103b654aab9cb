"""The list of everything that the wheel brings (an SBOM in CycloneDX's JSON): name, version, licence, hashes.

It follows the requirements of ``dsba`` with the extras that users install through the packages of this environment.
Hashes are those of requirements.lock. Nothing in it depends on the time or the machine.
"""

from __future__ import annotations

import json
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

OF_MAKERS = {"dev", "docs", "release"}
LOCKED = re.compile(r"^([\w.-]+)==(\S+).*((?:\n    --hash=\S+.*)+)", re.MULTILINE)


def brought(name: str, extras: frozenset[str], seen: set[tuple[str, str]]) -> set[str]:
    """The names of a package and of all that it needs here."""
    found = {canonicalize_name(name)}
    for text in metadata.requires(name) or []:
        needed = Requirement(text)
        wanted = needed.marker is None or any(needed.marker.evaluate({"extra": one}) for one in extras or {""})
        if wanted and (name, str(needed)) not in seen:
            seen.add((name, str(needed)))
            found |= brought(needed.name, frozenset(needed.extras), seen)
    return found


def component(name: str, hashes: dict[str, list[str]]) -> dict[str, Any]:
    about = metadata.metadata(name)
    licence = about.get("License-Expression") or about.get("License") or ""
    classifiers = [line.rpartition(" :: ")[2] for line in about.get_all("Classifier") or [] if "License" in line]
    named = licence if 0 < len(licence) < 80 else "; ".join(classifiers) or "see the package"
    entry: dict[str, Any] = {
        "type": "library",
        "name": about["Name"],
        "version": about["Version"],
        "purl": f"pkg:pypi/{name}@{about['Version']}",
        "licenses": [{"license": {"name": named}}],
    }
    if name in hashes:
        entry["hashes"] = [{"alg": "SHA-256", "content": one} for one in hashes[name]]
    return entry


def sbom(lock: str) -> dict[str, Any]:
    hashes = {
        canonicalize_name(name): sorted(re.findall(r"sha256:(\w+)", listed)) for name, _, listed in LOCKED.findall(lock)
    }
    extras = frozenset(metadata.metadata("dsba").get_all("Provides-Extra") or []) - OF_MAKERS
    names = sorted(brought("dsba", extras, set()) - {"dsba"})
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": component("dsba", {})},
        "components": [component(name, hashes) for name in names],
    }


if __name__ == "__main__":
    target = Path(sys.argv[1]) / f"dsba-{metadata.version('dsba')}.cdx.json"
    target.write_text(json.dumps(sbom(Path("requirements.lock").read_text()), indent=1) + "\n")
    print(target)
