"""Limits, sandbox and secrets of `aliquot session create`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aliquot.client.generated.confinement_inputs import SecretUseInput, SessionLimitsInput
    from aliquot.client.generated.enums import SandboxProfile


def limits_of(processes: int | None, open_files: int | None) -> "SessionLimitsInput | None":
    """None where nothing was said."""
    from aliquot.client.generated.confinement_inputs import SessionLimitsInput

    if processes is None and open_files is None:
        return None
    return SessionLimitsInput(processes=processes, open_files=open_files)


def sandbox_of(wanted: bool) -> "SandboxProfile | None":
    """The profile; there is one."""
    from aliquot.client.generated.enums import SandboxProfile

    return SandboxProfile.STANDARD if wanted else None


def secrets_of(variables: Sequence[str] | None, files: Sequence[str] | None) -> "list[SecretUseInput] | None":
    """`NAME`, or `NAME=VARIABLE` and `NAME=FILE`; None when there are none."""
    from aliquot.client.generated.confinement_inputs import SecretUseInput

    found = [SecretUseInput(name=name, as_env=given) for name, given in map(_named, variables or ())]
    found += [SecretUseInput(name=name, as_file=given) for name, given in map(_named, files or ())]
    return found or None


def _named(text: str) -> tuple[str, str]:
    name, _, given = text.partition("=")
    return name, given or name
