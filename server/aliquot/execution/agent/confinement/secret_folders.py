"""Where kernels find secrets that they get as files: in memory where the host has such a file system."""

import hashlib
import os
import shutil
import stat
from pathlib import Path
from typing import Final

from aliquot_schema.launching import LaunchOrder

VARIABLE: Final = "ALIQUOT_SECRETS_DIR"
_MOUNTS: Final = Path("/proc/self/mountinfo")
_IN_MEMORY: Final = ("tmpfs", "ramfs")


class SecretFolders:
    """The folders of one agent's kernels; each is made, and removed, by the kernel's shim."""

    def __init__(self, agent_folder: Path) -> None:
        self._agent_folder = agent_folder
        self._parent: Path | None = None

    def open(self) -> None:
        """Find a place in memory and make it. Blocks."""
        name = f"aliquot-{hashlib.sha256(os.fsencode(self._agent_folder.absolute())).hexdigest()[:16]}"
        for place in ("/run", "/dev/shm"):
            if _is_in_memory(place) and _taken(Path(place, name)):
                self._parent = Path(place, name)
                return

    def of(self, kernel: Path) -> Path:
        """Of a kernel, by its folder; on disk, in that folder, where nothing is kept in memory."""
        return kernel / "secrets" if self._parent is None else self._parent / kernel.name

    def remove(self, kernel: Path) -> None:
        """What a shim left, because it was killed or the job made folders there. Blocks."""
        shutil.rmtree(self.of(kernel), ignore_errors=True)

    def close(self) -> None:
        """Remove the place when nobody uses it."""
        if self._parent is not None:
            try:
                self._parent.rmdir()
            except OSError:
                return


def secret_environment(order: LaunchOrder) -> dict[str, str]:
    """Variables that hold secrets."""
    return {
        grant.use.as_env: grant.value
        for grant in order.secrets
        if grant.use.as_env is not None and grant.value is not None
    }


def secret_files(order: LaunchOrder, folder: Path) -> tuple[str, list[tuple[str, bytes]]] | None:
    """What the shim writes, see `spawner.order.Order.secret_files`."""
    files = [
        (grant.use.as_file, grant.value.encode(errors="surrogateescape"))
        for grant in order.secrets
        if grant.use.as_file is not None and grant.value is not None
    ]
    return (str(folder), files) if files else None


def _taken(path: Path) -> bool:
    """Make a folder that is ours alone to write to; False where somebody else was first."""
    try:
        path.mkdir(mode=0o711, exist_ok=True)
        status = os.lstat(path)
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            return False
        path.chmod(0o711)
    except OSError:
        return False
    return True


def _is_in_memory(place: str) -> bool:
    for line in _MOUNTS.read_text(encoding="utf-8").splitlines():
        before, _, after = line.partition(" - ")
        if before.split()[4] == place and after.split()[0] in _IN_MEMORY:
            return True
    return False
