"""Slurm's programs: their paths, the packages of those that are missing, and the version."""

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
"""Where the servers are; an ordinary account's PATH lacks them."""


def program(name: str) -> str:
    """A program's path.

    Raises:
        FileNotFoundError: it is not installed.
    """
    found = _found(name)
    if found is None:
        raise FileNotFoundError(name)
    return found


def missing_packages() -> list[str]:
    """Packages to install first."""
    return sorted({package for name, package in PACKAGES.items() if _found(name) is None})


def version() -> str:
    """As slurmd prints it: `slurm-wlm 22.05.8`; sbatch needs its configuration first."""
    return subprocess.run([program("slurmd"), "-V"], capture_output=True, text=True, check=True).stdout.strip()


def _found(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path=SYSTEM_FOLDERS)
