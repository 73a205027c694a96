"""The folder of an agent.

    lock            held by the agent that uses the folder
    epoch.json      the highest leader epoch seen
    kernels/        one folder per kernel, see `kernel_folder`
    sessions/       one folder per session: checkpoint/ and result/, the job user's, kept over its attempts
    drafts/         what is not finished yet; emptied at each start
    spawner.log     what the spawner and its shims could tell nobody else

Job users pass through the folders, and see only what is theirs.
"""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from aliquot.execution.agent.job_user import JobUser
from aliquot.execution.agent.json_files import FORMAT, flush_folder, read_file, replace_file
from aliquot.execution.agent.kernel_folder import KernelFolder
from aliquot.execution.agent.spawner import ofd_lock
from aliquot_schema.errors import InvalidRequest, Unavailable
from aliquot_schema.ids import KernelId, SessionId

_LOCK: Final = "lock"
_KERNEL_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,120}\.[0-9]{1,9}\.[0-9]{1,9}", re.ASCII)


class AgentFolder:
    """The paths of one agent. Everything here blocks on the disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.kernels = path / "kernels"
        self.sessions = path / "sessions"
        self.drafts = path / "drafts"
        self.spawner_log = path / "spawner.log"
        self._epoch = path / "epoch.json"
        self._lock: int | None = None

    def open(self) -> None:
        """Make the folder if need be, and take it.

        Raises:
            Unavailable: another agent uses it.
        """
        for path in (self.path, self.kernels, self.sessions, self.drafts):
            path.mkdir(mode=0o711, parents=True, exist_ok=True)
            path.chmod(0o711)
        lock = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        if not ofd_lock.take(lock):
            os.close(lock)
            raise Unavailable(f"another agent uses the folder {self.path}")
        self._lock = lock
        for draft in self.drafts.iterdir():
            shutil.rmtree(draft, ignore_errors=True)
        flush_folder(self.path)

    def close(self) -> None:
        """Let another agent take the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def kernel(self, kernel_id: KernelId) -> KernelFolder:
        """The folder of a kernel, whether there is one or not.

        Raises:
            InvalidRequest: the id is no kernel id, and must not become a path.
        """
        if _KERNEL_ID.fullmatch(kernel_id) is None:
            raise InvalidRequest(f"{kernel_id[:80]!r} is no kernel id", field="kernel_id")
        return KernelFolder(self.kernels / kernel_id)

    def known_kernels(self) -> Iterator[KernelFolder]:
        """Every kernel on disk, in the order of their ids."""
        for name in sorted(os.listdir(self.kernels)):
            if _KERNEL_ID.fullmatch(name):
                yield KernelFolder(self.kernels / name)

    def session(self, session_id: SessionId, *, user: JobUser) -> Path:
        """The folder that all attempts of a session share; made when it is missing."""
        path = self.sessions / session_id
        path.mkdir(exist_ok=True)
        path.chmod(0o711)  # whatever the umask of the process is
        for part in (path / "checkpoint", path / "result"):
            try:
                part.mkdir(mode=0o700)
            except FileExistsError:
                continue
            if user.switches:
                os.chown(part, user.uid, user.gid)
        return path

    def delete(self, kernel_id: KernelId) -> None:
        """Delete a kernel's folder, if there is one. What the job wrote is deleted without following links."""
        self._bury(self.kernel(kernel_id).path)

    def delete_session(self, session_id: SessionId) -> None:
        """Delete what the attempts of a session shared, in the same way."""
        self._bury(self.sessions / session_id)

    def read_epoch(self) -> int:
        """The highest leader epoch seen; 0 before the first."""
        fields = read_file(self._epoch)
        return 0 if fields is None else int(fields["epoch"])

    def write_epoch(self, epoch: int) -> None:
        """Remember an epoch durably."""
        replace_file(self._epoch, {"format": FORMAT, "epoch": epoch})

    def _bury(self, path: Path) -> None:
        grave = self.drafts / f"{path.name}.{os.urandom(8).hex()}"
        try:
            path.rename(grave)
        except FileNotFoundError:
            return
        shutil.rmtree(grave, ignore_errors=True)  # what resists is tried again at the next start


def is_taken(path: Path) -> bool:
    """Whether an agent uses this folder, in whatever process."""
    return ofd_lock.is_held(str(path / _LOCK))
