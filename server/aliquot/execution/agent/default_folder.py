"""Where everything is kept when nobody says where."""

import os
from pathlib import Path


def default_data_folder() -> Path:
    """`/var/lib/aliquot` for root, `~/.local/share/aliquot` for everybody else."""
    return Path("/var/lib/aliquot") if os.geteuid() == 0 else Path.home() / ".local" / "share" / "aliquot"
