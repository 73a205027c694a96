"""Agent folder: the files of one agent, and retention of ended kernels and of sessions' results.

    lock            held by the agent that uses the folder
    epoch.json      the highest leader epoch seen
    devices.json    the devices last reported to the server, including held ones that are leaving
    kernels/        one folder per kernel, see `kernel_folder`
    sessions/       one folder per session, shared by its attempts: checkpoint/ and result/, owned by the job user
    drafts/         unfinished files; emptied at each start
    spawner.log     stderr of the spawner and its shims

Job users may pass through the folders but read only their own files.
"""

import logging
import os
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from aliquot.execution.agent.job_user import JobUser
from aliquot.execution.agent.json_files import FORMAT, flush_folder, read_file, replace_file
from aliquot.execution.agent.kernel_folder import KernelFolder
from aliquot.execution.agent.logs import OutputLimit
from aliquot.execution.agent.spawner import ofd_lock
from aliquot_schema.errors import InvalidRequest, Unavailable
from aliquot_schema.ids import KernelId, SessionId, kernel_parts
from aliquot_schema.resources.devices import Device

_LOCK: Final = "lock"
_KERNEL_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,120}\.[0-9]{1,9}\.[0-9]{1,9}", re.ASCII)


class AgentFolder:
    """The paths of one agent. All methods block on disk I/O."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.kernels = path / "kernels"
        self.sessions = path / "sessions"
        self.drafts = path / "drafts"
        self.spawner_log = path / "spawner.log"
        self._epoch = path / "epoch.json"
        self._devices = path / "devices.json"
        self._lock: int | None = None

    def open(self) -> None:
        """Create the folder if it is missing, and lock it.

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
        """Unlock the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def kernel(self, kernel_id: KernelId) -> KernelFolder:
        """The folder of a kernel; it need not exist.

        Raises:
            InvalidRequest: the id is not a kernel id, so it must not become a path.
        """
        if _KERNEL_ID.fullmatch(kernel_id) is None:
            raise InvalidRequest(f"{kernel_id[:80]!r} is not a kernel id", field="kernel_id")
        return KernelFolder(self.kernels / kernel_id)

    def known_kernels(self) -> Iterator[KernelFolder]:
        """All kernels on disk, sorted by id."""
        for name in sorted(os.listdir(self.kernels)):
            if _KERNEL_ID.fullmatch(name):
                yield KernelFolder(self.kernels / name)

    def session(self, session_id: SessionId, *, user: JobUser) -> Path:
        """The folder shared by all attempts of a session; created if it is missing."""
        path = self.sessions / session_id
        path.mkdir(exist_ok=True)
        path.chmod(0o711)  # independent of the umask
        for part in (path / "checkpoint", path / "result"):
            try:
                part.mkdir(mode=0o700)
            except FileExistsError:
                continue
            if user.switches:
                os.chown(part, user.uid, user.gid)
        return path

    def delete(self, kernel_id: KernelId) -> None:
        """Delete a kernel's folder, if it exists. Links are not followed."""
        self._delete(self.kernel(kernel_id).path)

    def delete_session(self, session_id: SessionId) -> None:
        """Delete a session's shared folder, if it exists. Links are not followed."""
        self._delete(self.sessions / session_id)

    def read_epoch(self) -> int:
        """The highest leader epoch seen; 0 = none yet."""
        fields = read_file(self._epoch)
        return 0 if fields is None else int(fields["epoch"])

    def write_epoch(self, epoch: int) -> None:
        """Store an epoch durably."""
        replace_file(self._epoch, {"format": FORMAT, "epoch": epoch})

    def read_devices(self) -> tuple[Device, ...]:
        """The devices stored last; empty before the first time.

        Raises:
            OSError, ValueError: the file cannot be read.
        """
        fields = read_file(self._devices)
        return () if fields is None else msgspec.convert(fields.get("devices"), tuple[Device, ...])

    def write_devices(self, devices: Sequence[Device]) -> None:
        """Store the agent's devices durably: the only description of held devices that leave the configuration."""
        replace_file(self._devices, {"format": FORMAT, "devices": msgspec.to_builtins(list(devices))})

    def _delete(self, path: Path) -> None:
        trash = self.drafts / f"{path.name}.{os.urandom(8).hex()}"
        try:
            path.rename(trash)
        except FileNotFoundError:
            return
        shutil.rmtree(trash, ignore_errors=True)  # the rest is deleted at the next start


def is_taken(path: Path) -> bool:
    """Whether an agent in any process uses this folder."""
    return ofd_lock.is_held(str(path / _LOCK))


EVERY_S: Final = 3600.0
"""Minimum interval between two scans of the sessions' folders."""

_log: Final = logging.getLogger(__name__)


class OldResults:
    """Deletes expired checkpoints and results of sessions. Blocks on disk I/O; not thread-safe."""

    def __init__(self, folder: AgentFolder, *, kept_s: float | None) -> None:
        """
        Args:
            kept_s: retention after the last change of any file of a session; None = for ever.
        """
        self._folder = folder
        self._kept_s = kept_s
        self._swept_at: float | None = None

    def sweep(self) -> None:
        """Delete expired folders; at most once an hour. Sessions with a kernel on disk are kept."""
        now = time.monotonic()
        if self._kept_s is None or (self._swept_at is not None and now - self._swept_at < EVERY_S):
            return
        self._swept_at = now
        present = {kernel_parts(known.kernel_id)[0] for known in self._folder.known_kernels()}
        oldest = time.time() - self._kept_s
        names = [SessionId(name) for name in sorted(os.listdir(self._folder.sessions))]
        old = [name for name in names if name not in present and not _is_younger(self._folder.sessions / name, oldest)]
        for name in old:
            self._folder.delete_session(name)
        if old:
            _log.warning("deleted the checkpoints and results of %d sessions: retention is over", len(old))


def _is_younger(folder: Path, oldest: float) -> bool:
    """Whether any file below was changed at `oldest` or later, seconds since the epoch."""
    for path, _, files in os.walk(folder):
        for name in (".", *files):
            try:
                changed = os.lstat(os.path.join(path, name)).st_mtime
            except FileNotFoundError:
                continue
            if changed >= oldest:
                return True
    return False


class EndedKernels:
    """Retention of kernels whose end the server has stored: their outputs stay readable for a while.

    Blocks on disk I/O; not thread-safe.
    """

    def __init__(
        self, folder: AgentFolder, *, kept_s: float, kept_max: int, limit: OutputLimit, results: OldResults
    ) -> None:
        self._folder = folder
        self._kept_s = kept_s
        self._kept_max = kept_max
        self._limit = limit
        self._results = results
        self._forgotten: dict[KernelId, float] = {}
        """Kernel -> time it was marked, seconds since the epoch; ascending."""

    def open(self) -> None:
        """Load the marked kernels on disk, and delete expired ones."""
        marks = [(known.forgotten, known.kernel_id) for known in self._folder.known_kernels()]
        found = [(mark.stat().st_mtime, kernel_id) for mark, kernel_id in marks if mark.exists()]
        self._forgotten = {kernel_id: at for at, kernel_id in sorted(found)}
        self.sweep()

    def add(self, kernel_ids: list[KernelId]) -> None:
        """Mark kernels. If a power cut undoes a mark, the kernel is reported and marked once more."""
        for kernel_id in kernel_ids:
            self._limit.apply(self._folder.kernel(kernel_id).output)
            mark = self._folder.kernel(kernel_id).forgotten
            try:
                mark.touch(mode=0o600)
            except OSError:
                continue  # folder deleted or disk full: the kernel is reported and marked again after a restart
            self._forgotten.setdefault(kernel_id, time.time())
        self.sweep()

    def sweep(self) -> None:
        """Delete the folders of expired kernels, and the oldest above `kept_max`."""
        oldest = time.time() - self._kept_s
        for kernel_id, at in list(self._forgotten.items()):
            if at >= oldest and len(self._forgotten) <= self._kept_max:
                break
            self._folder.delete(kernel_id)
            del self._forgotten[kernel_id]
        self._results.sweep()
