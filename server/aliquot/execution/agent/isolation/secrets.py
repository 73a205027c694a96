"""Secrets: the folders and environment variables by which kernels get secrets; files are in memory if possible."""

import hashlib
import os
import shutil
import stat
from pathlib import Path
from typing import Final

from aliquot_schema.cluster.launching import LaunchOrder

VARIABLE: Final = "ALIQUOT_SECRETS_DIR"
_MOUNTS: Final = Path("/proc/self/mountinfo")
_IN_MEMORY: Final = ("tmpfs", "ramfs")


class SecretFolders:
    """The secret folders of one agent's kernels; each is created and removed by the kernel's shim."""

    def __init__(self, agent_folder: Path) -> None:
        self._agent_folder = agent_folder
        self._parent: Path | None = None

    def open(self) -> None:
        """Create the parent folder on an in-memory file system, if there is one. Blocks."""
        name = f"aliquot-{hashlib.sha256(os.fsencode(self._agent_folder.absolute())).hexdigest()[:16]}"
        for place in ("/run", "/dev/shm"):
            if _is_in_memory(place) and _create_own(Path(place, name)):
                self._parent = Path(place, name)
                return

    def of(self, kernel: Path) -> Path:
        """The secret folder of a kernel, given its folder; in that folder on disk without an in-memory file system."""
        return kernel / "secrets" if self._parent is None else self._parent / kernel.name

    def remove(self, kernel: Path) -> None:
        """Remove a secret folder that a killed shim, or folders made by the job, left behind. Blocks."""
        shutil.rmtree(self.of(kernel), ignore_errors=True)

    def close(self) -> None:
        """Remove the parent folder if it is empty."""
        if self._parent is not None:
            try:
                self._parent.rmdir()
            except OSError:
                return


def secret_environment(order: LaunchOrder) -> dict[str, str]:
    """Environment variables with secrets."""
    return {
        grant.use.as_env: grant.value
        for grant in order.secrets
        if grant.use.as_env is not None and grant.value is not None
    }


def secret_files(order: LaunchOrder, folder: Path) -> tuple[str, list[tuple[str, bytes]]] | None:
    """Secret files for the shim to write, see `spawner.order.Order.secret_files`."""
    files = [
        (grant.use.as_file, grant.value.encode(errors="surrogateescape"))
        for grant in order.secrets
        if grant.use.as_file is not None and grant.value is not None
    ]
    return (str(folder), files) if files else None


def _create_own(path: Path) -> bool:
    """Create a folder that only the agent may write to; False if it exists and another user owns it."""
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
