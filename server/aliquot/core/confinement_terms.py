"""Terms of confinement: the limits, the sandbox and the secrets that a request asks for."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from aliquot.core.admission_names import check_own_variable
from aliquot.core.field_checks import check_limit, count
from aliquot_schema.confinement import (
    LIMIT_MAX,
    OPEN_FILES_MIN,
    PROCESSES_MIN,
    SANDBOX_LABEL,
    SandboxProfile,
    SessionLimits,
)
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.requests import NewSession
from aliquot_schema.secrets import FILE_NAME, SECRET_NAME, SECRETS_OF_SESSION_MAX, SecretUse

NAME_SHOWN_MAX: Final = 64


def limits_of(request: NewSession) -> SessionLimits:
    """What each kernel may use at most."""
    processes, files = request.processes, request.open_files
    if processes is not None:
        processes = count(processes, field="limits", least=PROCESSES_MIN, most=LIMIT_MAX)
    if files is not None:
        files = count(files, field="limits", least=OPEN_FILES_MIN, most=LIMIT_MAX)
    return SessionLimits(processes=processes, open_files=files)


def sandbox_of(request: NewSession) -> SandboxProfile | None:
    """The profile that it demands."""
    if request.sandbox is None:
        return None
    try:
        return SandboxProfile(request.sandbox)
    except ValueError:
        names = ", ".join(SandboxProfile)
        raise InvalidRequest(f"sandbox: {request.sandbox[:40]!r} is none of {names}", field="sandbox") from None


def sandbox_labels(profile: SandboxProfile | None) -> dict[str, str]:
    """The labels of agents that can keep to it."""
    return {} if profile is None else {SANDBOX_LABEL: str(profile)}


def secrets_of(
    asked: Sequence[tuple[str, str | None, str | None]], *, variables: Sequence[str]
) -> tuple[SecretUse, ...]:
    """The secrets that a session is given.

    Args:
        asked: (name, variable, file).
        variables: names that the session sets by itself.
    """
    check_limit(len(asked), field="secrets", most=SECRETS_OF_SESSION_MAX)
    for name, variable, file in asked:
        if SECRET_NAME.fullmatch(name) is None:
            raise InvalidRequest(f"secrets: {name[:NAME_SHOWN_MAX]!r} is no name of a secret", field="secrets")
        if variable is None and file is None:
            raise InvalidRequest(f"secrets: say for {name} which variable or file it becomes", field="secrets")
        if variable is not None:
            check_own_variable(variable, field="secrets")
        if file is not None and FILE_NAME.fullmatch(file) is None:
            raise InvalidRequest(f"secrets: {file[:NAME_SHOWN_MAX]!r} is no file name", field="secrets")
    _check_once([*variables, *(variable for _, variable, _ in asked if variable is not None)])
    _check_once([file for _, _, file in asked if file is not None])
    return tuple(SecretUse(name=name, as_env=variable, as_file=file) for name, variable, file in asked)


def _check_once(names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise InvalidRequest(f"secrets: {twice} is given twice", field="secrets")
