"""The version of the code that decides: a pass is reproduced by the very same sources, and by no others for certain."""

import hashlib
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import aliquot
import aliquot_schema

DECIDING: Final = ("core", "service")
"""Packages of the server that make a snapshot, or decide on one."""
_DIGITS: Final = 12


@cache
def code_version() -> str:
    """`<version>+<first digits of the SHA-256 of the sources>`. Reads some hundred small files, once."""
    server, schema = (Path(str(package.__file__)).parent for package in (aliquot, aliquot_schema))
    paths = [path for name in DECIDING for path in sorted((server / name).rglob("*.py"))]
    paths += sorted(schema.glob("*.py"))
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return f"{_version()}+{digest.hexdigest()[:_DIGITS]}"


def _version() -> str:
    try:
        return version("aliquot")
    except PackageNotFoundError:
        return "0"
