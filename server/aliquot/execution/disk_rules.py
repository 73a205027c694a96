"""Disk rules: how long an output may be, and how much has to stay free for something new to be begun."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aliquot_schema.sizes import format_size

OUTPUT_BYTES_MAX: Final = 2**30
FLOOR_BYTES: Final = 2**30
SHARE: Final = 50
"""Of a small file system, 1 / SHARE is enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskRules:
    """What holds on the disks of jobs and servers."""

    output_bytes_max: int | None = OUTPUT_BYTES_MAX
    """Of one output on the disk; the middle of a longer one is left out, see `output_limit`. None = no limit."""
    outputs_kept_s: float = 30 * 86_400.0
    """Outputs of kernels, from their end on."""
    results_kept_s: float | None = 365 * 86_400.0
    """Checkpoints and results of sessions, from their last change on; None = for ever."""
    bytes_min: int | None = None
    """How much has to stay free for something new to be launched; None = 1 GiB, or 2 % of the file system where that is
    less."""

    def shortage(self, folder: Path) -> str | None:
        """What is short on a folder's file system, in words; None when there is room. Blocks on the disk.

        What root alone may use is not counted as free. A file system that cannot be asked is taken to have room.
        """
        try:
            space = os.statvfs(folder)
        except OSError:
            return None
        free = space.f_bavail * space.f_frsize
        total = space.f_blocks * space.f_frsize
        least = min(FLOOR_BYTES, total // SHARE) if self.bytes_min is None else self.bytes_min
        if free >= least:
            return None
        return f"the disk of {folder} has {format_size(free)} free, and {format_size(least)} have to stay so"
