"""Isolation settings: limits of jobs and the sandbox mode of a node."""

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, NoDecode

from aliquot.service.setting_errors import wrong
from aliquot_schema.errors import InvalidAmount, InvalidRequest
from aliquot_schema.resources.confinement import LIMIT_MAX, SessionLimits
from aliquot_schema.resources.units import parse_size

PROCESSES: Final = 16_384
"""Default process limit of a kernel, enforced by cgroup: above any job's needs, below what harms a host."""


def _listed(value: object) -> object:
    """A comma-separated string as a tuple; anything else as it is."""
    return tuple(filter(None, map(str.strip, value.split(",")))) if isinstance(value, str) else value


class SandboxMode(StrEnum):
    """Which kernels run in the sandbox."""

    REQUIRED = "required"
    """All; if the sandbox does not work, no job runs."""
    WHEN_POSSIBLE = "when-possible"
    """All, if the sandbox works."""
    WHEN_ASKED = "when-asked"
    """Kernels whose session requests it."""
    OFF = "off"
    """None; sessions that request it are placed on other agents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A folder or file of the node that is visible in the sandbox under the same path."""

    path: Path
    writable: bool

    @classmethod
    def parse(cls, text: str) -> "Mount":
        """Parse `/path:ro` or `/path:rw`.

        Raises:
            ValueError: the text has another form.
        """
        path, colon, right = text.rpartition(":")
        if not colon or right not in ("ro", "rw") or not path.startswith("/") or ".." in Path(path).parts:
            raise ValueError(f"{text}: write an absolute path and :ro or :rw, like /data:ro")
        return cls(path=Path(path), writable=right == "rw")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfinementRules:
    """Limits and sandbox of a node. 0 = unlimited."""

    processes: int = PROCESSES
    """Default of sessions without a process limit."""
    processes_max: int = 0
    """Largest process limit that a session may request."""
    open_files: int = 0
    open_files_max: int = 0
    file_bytes_max: int = 0
    """Maximum size of a file written by a kernel."""
    limit_cpu: bool = True
    """Limit the CPU time of kernels to their granted CPUs."""
    sandbox: SandboxMode = SandboxMode.WHEN_ASKED
    mounts: tuple[Mount, ...] = ()
    hidden: tuple[Path, ...] = field(default=())
    """Folders and files hidden in the sandbox, except the kernel's own parts; the agent's folder is always hidden."""
    containers: str = "off"
    """The program that runs sessions with an image, see `isolation.containers`: a runtime, `auto` or `off`."""
    insecure_registries: tuple[str, ...] = ()
    """Registries, like `host:port`, that images may be fetched from without TLS; those on loopback always may."""

    def check(self, asked: SessionLimits) -> None:
        """Check a session's limits against the maxima.

        Raises:
            InvalidRequest: a limit exceeds its maximum, which the message names.
        """
        for name, wanted, most in (
            ("processes", asked.processes, self.processes_max),
            ("open_files", asked.open_files, self.open_files_max),
        ):
            if wanted is not None and most and wanted > most:
                raise InvalidRequest(f"limits: {name} is {wanted}; the maximum here is {most}", field="limits")


class ConfinementSettings(BaseSettings):
    """Isolation part of `aliquot.settings.Settings`."""

    job_processes: int = Field(
        PROCESSES, ge=0, le=LIMIT_MAX, description="Default limit on the processes of a job; 0 = unlimited."
    )
    job_processes_max: int = Field(
        0, ge=0, le=LIMIT_MAX, description="Largest process limit that a session may request; 0 = unlimited."
    )
    job_open_files: int = Field(
        0, ge=0, le=LIMIT_MAX, description="Default limit on the open files of each process; 0 = the server's limit."
    )
    job_open_files_max: int = Field(
        0, ge=0, le=LIMIT_MAX, description="Largest open-files limit that a session may request; 0 = unlimited."
    )
    job_file_size_max: str = Field(
        "0", description="Maximum size of a file that a job writes, like 500g; 0 = unlimited."
    )
    limit_cpu: bool = Field(True, description="Whether the CPU time of jobs is limited to their granted CPUs.")
    sandbox: SandboxMode = Field(
        SandboxMode.WHEN_ASKED,
        description="Which jobs run in a bubblewrap sandbox: required, when-possible, when-asked or off.",
    )
    containers: Literal["auto", "podman", "docker", "apptainer", "off"] = Field(
        "auto",
        description="What runs sessions with an image: podman, docker, apptainer, auto (the first that works) or off.",
    )
    insecure_registries: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Registries from which Podman may fetch images without TLS, like registry.lab:5000; those on "
        "loopback always may.",
    )
    sandbox_mounts: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Folders of the node visible in the sandbox besides the home, like /data:ro,/scratch:rw."
    )

    def confinement_rules(self, *hidden: Path) -> ConfinementRules:
        """The settings as rules.

        Args:
            hidden: folders and files hidden in the sandbox, except the kernels' own parts.
        """
        return ConfinementRules(
            processes=self.job_processes,
            processes_max=self.job_processes_max,
            open_files=self.job_open_files,
            open_files_max=self.job_open_files_max,
            file_bytes_max=parse_size(self.job_file_size_max),
            limit_cpu=self.limit_cpu,
            sandbox=self.sandbox,
            mounts=tuple(map(Mount.parse, self.sandbox_mounts)),
            hidden=hidden,
            containers=self.containers,
            insecure_registries=self.insecure_registries,
        )

    @field_validator("insecure_registries", mode="before")
    @classmethod
    def _are_registries(cls, value: object) -> object:
        """Accepts a comma-separated string, as from an environment variable."""
        given = _listed(value)
        for text in given if isinstance(given, list | tuple) else ():
            if not text or "/" in str(text) or any(map(str.isspace, str(text))):
                raise wrong(f"{text!r} is not a registry; give host:port without a scheme, like registry.lab:5000")
        return given

    @field_validator("sandbox_mounts", mode="before")
    @classmethod
    def _are_mounts(cls, value: object) -> object:
        """Accepts a comma-separated string, as from an environment variable."""
        given = _listed(value)
        for text in given if isinstance(given, list | tuple) else ():
            try:
                Mount.parse(str(text))
            except ValueError as error:
                raise wrong(str(error)) from None
        return given

    @field_validator("job_file_size_max")
    @classmethod
    def _is_file_size(cls, value: str) -> str:
        try:
            parse_size(value)
        except InvalidAmount as error:
            raise wrong(error.message) from None
        return value
