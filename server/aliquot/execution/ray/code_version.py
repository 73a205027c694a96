"""Which code this is: a hash over the source files that an agent consists of."""

import hashlib
from pathlib import Path
from typing import Final

import aliquot
import aliquot_schema

_AGENT: Final = {
    aliquot: ("errors.py", "core/allocation/**/*.py", "execution/**/*.py"),
    aliquot_schema: ("*.py",),
}
"""What agents import, by package."""


def installed_code() -> str:
    """The code on the disk now; what a process has loaded may be older."""
    digest = hashlib.sha256()
    for package, parts in _AGENT.items():
        root = Path(str(package.__file__)).parent
        for path in sorted(path for part in parts for path in root.glob(part)):
            digest.update(f"{root.name}/{path.relative_to(root)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
