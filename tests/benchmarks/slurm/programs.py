"""Slurm's programs: which there are, which packages bring those that are missing, and which version it is."""

import shutil
import subprocess
from typing import Final

PACKAGES: Final = {
    "munged": "munge",
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "sbatch": "slurm-client",
    "squeue": "slurm-client",
    "srun": "slurm-client",
}
"""Debian's package of each program."""
SYSTEM_FOLDERS: Final = ":/usr/sbin:/sbin"
"""Where the servers are; the path of an ordinary account lacks them."""


def program(name: str) -> str:
    """Where a program is.

    Raises:
        FileNotFoundError: it is not installed.
    """
    found = _found(name)
    if found is None:
        raise FileNotFoundError(name)
    return found


def missing_packages() -> list[str]:
    """What has to be installed first."""
    return sorted({package for name, package in PACKAGES.items() if _found(name) is None})


def version() -> str:
    """As slurmd tells it: `slurm-wlm 22.05.8`; sbatch wants its configuration first."""
    return subprocess.run([program("slurmd"), "-V"], capture_output=True, text=True, check=True).stdout.strip()


def _found(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path=SYSTEM_FOLDERS)
