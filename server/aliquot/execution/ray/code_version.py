"""Which code this is: a hash over the source files that an agent consists of."""

import hashlib
from pathlib import Path
from typing import Final

import aliquot
import aliquot_schema

_ROOTS: Final = tuple(Path(str(package.__file__)).parent for package in (aliquot, aliquot_schema))
_ASIDE: Final = frozenset({"graphql", "dashboard", "cli", "api", "store", "service", "client"})
"""Packages of the server alone."""


def installed_code() -> str:
    """The code on the disk now; what a process has loaded may be older."""
    digest = hashlib.sha256()
    for root in _ROOTS:
        for path in sorted(root.rglob("*.py")):
            inside = path.relative_to(root)
            if inside.parts[0] not in _ASIDE:
                digest.update(f"{root.name}/{inside}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
