"""Confinement rules: what an operator says of limits and of the sandbox on a node."""

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from aliquot_schema.confinement import SessionLimits
from aliquot_schema.errors import InvalidRequest

PROCESSES: Final = 16_384
"""Of one kernel, where a cgroup counts them: more than any job needs, and less than a host bears."""


class SandboxMode(StrEnum):
    """Which kernels are put into the sandbox."""

    REQUIRED = "required"
    """All; where there is none, nothing is run."""
    WHEN_POSSIBLE = "when-possible"
    """All, where there is one."""
    WHEN_ASKED = "when-asked"
    """Those whose session demands it."""
    OFF = "off"
    """None; sessions that demand it go elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A folder or file of the node that is seen in the sandbox, in the same place."""

    path: Path
    writable: bool

    @classmethod
    def parse(cls, text: str) -> "Mount":
        """Read `/path:ro` or `/path:rw`.

        Raises:
            ValueError: it is something else.
        """
        path, colon, right = text.rpartition(":")
        if not colon or right not in ("ro", "rw") or not path.startswith("/") or ".." in Path(path).parts:
            raise ValueError(f"{text}: write an absolute path and :ro or :rw, like /data:ro")
        return cls(path=Path(path), writable=right == "rw")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfinementRules:
    """What holds on a node. 0 means that there is no such limit."""

    processes: int = PROCESSES
    """Of kernels whose session says nothing."""
    processes_max: int = 0
    """The most that a session may ask for."""
    open_files: int = 0
    open_files_max: int = 0
    file_bytes_max: int = 0
    """The longest file that a kernel may write."""
    limit_cpu: bool = True
    """Hold kernels to as much CPU time as they were given CPUs."""
    sandbox: SandboxMode = SandboxMode.WHEN_ASKED
    mounts: tuple[Mount, ...] = ()
    hidden: tuple[Path, ...] = field(default=())
    """Folders of which a kernel in the sandbox sees its own parts alone, and files that it does not see; the agent's
    own folder is always one."""

    def check(self, asked: SessionLimits) -> None:
        """Refuse more than the maxima.

        Raises:
            InvalidRequest: the message says what may be asked for.
        """
        for name, wanted, most in (
            ("processes", asked.processes, self.processes_max),
            ("open_files", asked.open_files, self.open_files_max),
        ):
            if wanted is not None and most and wanted > most:
                raise InvalidRequest(f"limits: {name} {wanted} is more than {most}, the most here", field="limits")
