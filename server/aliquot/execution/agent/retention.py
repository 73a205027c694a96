"""Retention on an agent: deletes expired outputs, checkpoints and results, unless the clock of the node has jumped."""

import logging
import os
import time
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Final

from aliquot.execution.agent.agent_folder import AgentFolder
from aliquot.execution.agent.logs import OutputLimit
from aliquot.service.retention import ClockJumps
from aliquot_schema.ids import KernelId, SessionId, kernel_parts

EVERY_S: Final = 3600.0
"""Minimum interval between two scans of the sessions' folders."""

JUMPED_OR_OFF: Final = (
    "the clock jumped ahead by %d days, or this agent was off for as long: nothing is deleted because of its age for "
    "24 hours; if the clock is wrong, correct it"
)

_log: Final = logging.getLogger(__name__)


class SteadyClock:
    """Whether the wall clock of the node can be trusted, see `ClockJumps`.

    The last time that was trusted is kept in a file, so that a restart of the agent or of its node does not forget it.
    """

    def __init__(self, folder: AgentFolder) -> None:
        self._folder = folder
        self._jumps: ClockJumps | None = None

    def is_steady(self) -> bool:
        """Whether the wall clock can be trusted. A jump is logged once."""
        if self._jumps is None:
            # The folder of an older version has no mark; its last kernel is the newest time that is known.
            known = self._folder.clock if self._folder.clock.exists() else self._folder.kernels
            known_us = round(known.stat().st_mtime * 1e6)
            self._jumps = ClockJumps(_NodeClocks(), known_us=known_us, message=JUMPED_OR_OFF)
        if not self._jumps.is_steady():
            return False
        now_s = time.time()
        with suppress(OSError):
            self._folder.clock.touch(mode=0o600)
            os.utime(self._folder.clock, (now_s, now_s))
        return True


class _NodeClocks:
    def wall_us(self) -> int:
        return round(time.time() * 1e6)

    def monotonic(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)


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
        deleted = [name for name in old if self._folder.delete_session(name)]
        if deleted:
            _log.warning("deleted the checkpoints and results of %d sessions: retention is over", len(deleted))


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
        self._clock = SteadyClock(folder)
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
        is_steady = self._clock.is_steady()
        oldest = time.time() - self._kept_s if is_steady else -inf
        while self._forgotten:
            kernel_id, at = next(iter(self._forgotten.items()))
            if at >= oldest and len(self._forgotten) <= self._kept_max:
                break
            if not self._folder.delete(kernel_id):
                break
            del self._forgotten[kernel_id]
        if is_steady:
            self._results.sweep()
