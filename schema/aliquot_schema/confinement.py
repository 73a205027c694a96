"""Confinement: what a session may use besides its slots, what it sees of its node, and what enforces that."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

SANDBOX_LABEL: Final = "aliquot.sandbox"
"""Every agent with a sandbox counts as labelled so, with the profile's name; a session that demands one asks for it."""
PROCESSES_MIN: Final = 8
"""A sandbox and a shell take some of them."""
OPEN_FILES_MIN: Final = 16
LIMIT_MAX: Final = 1_000_000


class SandboxProfile(StrEnum):
    """What a job sees of its node."""

    STANDARD = "standard"
    """A read-only system, a /tmp and /dev of its own, no processes of others, none of the server's files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLimits:
    """What each kernel may use at most; None = as the agent's settings say."""

    processes: int | None = None
    """Processes and threads at one time."""
    open_files: int | None = None
    """Of each process."""


NO_LIMITS: Final = SessionLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Enforcement:
    """What holds kernels to each limit on an agent: `cgroup_v2`, `cgroup_v1`, `rlimit`, `shim` or `none`."""

    memory: str = "none"
    processes: str = "none"
    cpu: str = "none"
    open_files: str = "none"
    file_size: str = "none"
    wall_time: str = "shim"


UNKNOWN_ENFORCEMENT: Final = Enforcement()
