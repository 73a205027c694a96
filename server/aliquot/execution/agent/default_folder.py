"""Where everything is kept when no flag says where."""

import os
from pathlib import Path
from typing import Final

FOLDER_VARIABLE: Final = "ALIQUOT_DATA_FOLDER"


def default_data_folder() -> Path:
    """$ALIQUOT_DATA_FOLDER; else `/var/lib/aliquot` for root, `~/.local/share/aliquot` for everybody else."""
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        return Path(named)
    return Path("/var/lib/aliquot") if os.geteuid() == 0 else Path.home() / ".local" / "share" / "aliquot"
