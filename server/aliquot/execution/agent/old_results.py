"""Folders of sessions that ended long ago: their checkpoints and results are deleted when nobody has touched them."""

import logging
import os
import time
from pathlib import Path
from typing import Final

from aliquot.execution.agent.agent_folder import AgentFolder
from aliquot_schema.ids import SessionId, kernel_parts

EVERY_S: Final = 3600.0

_log: Final = logging.getLogger(__name__)


class OldResults:
    """Blocks on the disk; not for two threads at once."""

    def __init__(self, folder: AgentFolder, *, kept_s: float | None) -> None:
        """
        Args:
            kept_s: after the last change of any file of a session; None = for ever.
        """
        self._folder = folder
        self._kept_s = kept_s
        self._looked_at: float | None = None

    def sweep(self) -> None:
        """Look through all of them, once an hour at most. A session of which a kernel is still known keeps its own."""
        now = time.monotonic()
        if self._kept_s is None or (self._looked_at is not None and now - self._looked_at < EVERY_S):
            return
        self._looked_at = now
        present = {kernel_parts(known.kernel_id)[0] for known in self._folder.known_kernels()}
        oldest = time.time() - self._kept_s
        names = [SessionId(name) for name in sorted(os.listdir(self._folder.sessions))]
        old = [name for name in names if name not in present and not _is_younger(self._folder.sessions / name, oldest)]
        for name in old:
            self._folder.delete_session(name)
        if old:
            _log.warning("deleted the checkpoints and results of %d sessions as too old", len(old))


def _is_younger(folder: Path, oldest: float) -> bool:
    """Whether anything below was changed since."""
    for path, _, files in os.walk(folder):
        for name in (".", *files):
            try:
                changed = os.lstat(os.path.join(path, name)).st_mtime
            except FileNotFoundError:
                continue
            if changed >= oldest:
                return True
    return False
