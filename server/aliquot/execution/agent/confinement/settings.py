"""Settings of limits, and of the sandbox."""

from pathlib import Path
from typing import Annotated

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, NoDecode

from aliquot.execution.agent.confinement.rules import PROCESSES, ConfinementRules, Mount, SandboxMode
from aliquot.service.setting_errors import wrong
from aliquot_schema.confinement import LIMIT_MAX
from aliquot_schema.errors import InvalidAmount
from aliquot_schema.sizes import parse_size


class ConfinementSettings(BaseSettings):
    """A part of `aliquot.settings.Settings`."""

    job_processes: int = Field(
        PROCESSES, ge=0, le=LIMIT_MAX, description="Processes that a job may have which asks for no number; 0 for all."
    )
    job_processes_max: int = Field(
        0, ge=0, le=LIMIT_MAX, description="The most processes that a session may ask for; 0 for any number."
    )
    job_open_files: int = Field(
        0, ge=0, le=LIMIT_MAX, description="Files that each process of a job may have open; 0 as many as the server."
    )
    job_open_files_max: int = Field(
        0, ge=0, le=LIMIT_MAX, description="The most open files that a session may ask for; 0 for any number."
    )
    job_file_size_max: str = Field("0", description="The longest file that a job may write, like 500g; 0 for any.")
    limit_cpu: bool = Field(True, description="Hold jobs to as much CPU time as they were given CPUs.")
    sandbox: SandboxMode = Field(
        SandboxMode.WHEN_ASKED,
        description="Which jobs run in a bubblewrap sandbox: required, when-possible, when-asked or off.",
    )
    sandbox_mounts: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="What jobs in the sandbox see of the node besides their home, like /data:ro,/scratch:rw."
    )

    def confinement_rules(self, *hidden: Path) -> ConfinementRules:
        """What holds on this node.

        Args:
            hidden: folders that jobs in the sandbox do not see, but for their own parts, and files.
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
        )

    @field_validator("sandbox_mounts", mode="before")
    @classmethod
    def _are_mounts(cls, value: object) -> object:
        """In the environment a list is written with commas."""
        given = tuple(filter(None, map(str.strip, value.split(",")))) if isinstance(value, str) else value
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
