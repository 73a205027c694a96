"""Kernels that the server has forgotten: their outputs can be read for a while, then their folders are deleted."""

import time

from aliquot.execution.agent.agent_folder import AgentFolder
from aliquot.execution.agent.old_results import OldResults
from aliquot.execution.agent.output_limit import OutputLimit
from aliquot_schema.ids import KernelId


class EndedKernels:
    """Blocks on the disk; not for two threads at once."""

    def __init__(
        self, folder: AgentFolder, *, kept_s: float, kept_max: int, limit: OutputLimit, results: OldResults
    ) -> None:
        self._folder = folder
        self._kept_s = kept_s
        self._kept_max = kept_max
        self._limit = limit
        self._results = results
        self._forgotten: dict[KernelId, float] = {}
        """When each was forgotten, seconds of the wall clock; in this order."""

    def open(self) -> None:
        """Find those on disk, and let the oldest go."""
        marks = [(known.forgotten, known.kernel_id) for known in self._folder.known_kernels()]
        found = [(mark.stat().st_mtime, kernel_id) for mark, kernel_id in marks if mark.exists()]
        self._forgotten = {kernel_id: at for at, kernel_id in sorted(found)}
        self.sweep()

    def add(self, kernel_ids: list[KernelId]) -> None:
        """Mark these. A mark that a power cut undoes is made again: the kernel is told, and forgotten, once more."""
        for kernel_id in kernel_ids:
            self._limit.hold(self._folder.kernel(kernel_id).output)
            mark = self._folder.kernel(kernel_id).forgotten
            try:
                mark.touch(mode=0o600)
            except OSError:
                continue  # its folder was deleted, or the disk is full: then it is told, and marked, after a restart
            self._forgotten.setdefault(kernel_id, time.time())
        self.sweep()

    def sweep(self) -> None:
        """Delete the folders of those that are too old, or too many."""
        oldest = time.time() - self._kept_s
        for kernel_id, at in list(self._forgotten.items()):
            if at >= oldest and len(self._forgotten) <= self._kept_max:
                break
            self._folder.delete(kernel_id)
            del self._forgotten[kernel_id]
        self._results.sweep()
