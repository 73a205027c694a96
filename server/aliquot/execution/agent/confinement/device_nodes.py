"""Device files of accelerators that a kernel in the sandbox is shown."""

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from aliquot.execution.devices.plugin import DeviceGate
from aliquot_schema.devices import ResourceSpec
from aliquot_schema.slots import is_accelerator

_FOLDERS: Final = ("nvidia-caps", "dri", "infiniband")
_NAMES: Final = ("nvidia", "kfd")


def device_nodes(spec: ResourceSpec, gates: Sequence[DeviceGate], *, root: Path = Path("/dev")) -> list[str]:
    """All that are not another's: where a plugin tells its files apart, those that it grants; else all of them.

    Args:
        gates: what the plugins say for this spec.
    """
    if not any(is_accelerator(slot) and sum(amounts.values()) for slot, amounts in spec.items()):
        return []
    return sorted(str(path) for path in _candidates(root) if _is_granted(path, gates))


def _candidates(root: Path) -> Iterator[Path]:
    for name in os.listdir(root):
        if name.startswith(_NAMES) and name not in _FOLDERS:
            yield root / name
    for folder in _FOLDERS:
        if (root / folder).is_dir():
            yield from (root / folder).iterdir()


def _is_granted(path: Path, gates: Sequence[DeviceGate]) -> bool:
    try:
        status = path.stat()
    except OSError:
        return False
    if not stat.S_ISCHR(status.st_mode):
        return False
    major, minor = os.major(status.st_rdev), os.minor(status.st_rdev)
    about = [gate for gate in gates if gate.major == major and gate.first <= minor <= gate.last]
    return all(minor in gate.allowed for gate in about)
