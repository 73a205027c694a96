"""Session options: validation of constraints, fallbacks, signals, job arrays, limits, sandbox and secrets."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from signal import SIGKILL, SIGSTOP, Signals, valid_signals
from typing import Final

from aliquot.core.model.snapshot import milli_of
from aliquot.core.validation.fields import check_limit, check_own_variable, count, label, milliseconds, plain
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.identity.secrets import FILE_NAME, SECRET_NAME, SECRETS_OF_SESSION_MAX, SecretUse
from aliquot_schema.intervals import Intervals
from aliquot_schema.requests import NewFallback, NewSession
from aliquot_schema.resources.confinement import (
    LIMIT_MAX,
    OPEN_FILES_MIN,
    PROCESSES_MIN,
    SANDBOX_LABEL,
    SandboxProfile,
    SessionLimits,
)
from aliquot_schema.resources.slots import ResourceSlot, Unlimited
from aliquot_schema.sessions import (
    ARRAY_TASKS_MAX,
    CLUSTER_SIZE_MAX,
    COMMAND_BYTES_MAX,
    FALLBACKS_MAX,
    TAGS_MAX,
    ArrayTasks,
    Fallback,
    SessionSpec,
)

GRACE_S_MAX: Final = 86_400
MODELS_MAX: Final = 64
NOT_CAUGHT: Final = frozenset({int(SIGKILL), int(SIGSTOP)})
QUOTED_CHARS_MAX: Final = 64


def named_values(pairs: Sequence[tuple[str, str]], *, field: str) -> dict[str, str]:
    """Tags or labels: unique short names with short values."""
    check_limit(len(pairs), field=field, most=TAGS_MAX)
    found = {label(name, field=field) or "": label(value, field=field) or "" for name, value in pairs}
    if len(found) < len(pairs):
        raise InvalidRequest(f"{field}: a name is given twice", field=field)
    return found


def models_of(patterns: Sequence[str], *, field: str) -> tuple[str, ...]:
    """Patterns of accelerator models, without duplicates."""
    check_limit(len(patterns), field=field, most=MODELS_MAX)
    if not all(pattern.strip() for pattern in patterns):
        raise InvalidRequest(f"{field}: a model is empty; give a name, or a pattern like *H100*", field=field)
    return tuple(dict.fromkeys(label(pattern, field=field) or "" for pattern in patterns))


def signal_of(text: str | None) -> int | None:
    """A signal that a process can catch, by name or number: `SIGUSR1`, `usr1`, `10`."""
    if text is None:
        return None
    name = text.strip().upper()
    if name.isascii() and name.isdigit() and len(name) <= 3:
        number = int(name)
    else:
        number = Signals.__members__.get(name if name.startswith("SIG") else f"SIG{name}", 0)
    if number not in valid_signals():
        raise InvalidRequest(
            f"checkpoint_signal: {text[:32]!r} is not a signal; use one like SIGUSR1 or 10", field="checkpoint_signal"
        )
    if number in NOT_CAUGHT:
        raise InvalidRequest(
            f"checkpoint_signal: no process can catch {text[:32]}; use one like SIGUSR1", field="checkpoint_signal"
        )
    return int(number)


def grace_of(seconds: float | None) -> int | None:
    """The time from the checkpoint signal to the stop, in milliseconds."""
    return milliseconds(seconds, field="grace", most_s=GRACE_S_MAX)


def with_fallbacks(
    spec: SessionSpec,
    wishes: Sequence[NewFallback],
    *,
    slots: Sequence[ResourceSlot],
    memory: Sequence[int | None],
) -> SessionSpec:
    """The spec with its fallbacks.

    A missing cluster size is that of the session, missing memory that of the fallback before.

    Args:
        slots: amounts of each fallback.
        memory: minimum memory per device of each fallback, in bytes; None = not given.
    Raises:
        InvalidRequest: one is not smaller, or not later, than the one before it.
    """
    check_limit(len(wishes), field="fallbacks", most=FALLBACKS_MAX)
    before = Fallback(
        slots=spec.slots, cluster_size=spec.cluster_size, gpu_memory_bytes=spec.gpu_memory_bytes, after_ms=0
    )
    found: list[Fallback] = []
    for place, (wish, amounts, bytes_least) in enumerate(zip(wishes, slots, memory, strict=True), start=1):
        fallback = Fallback(
            slots=amounts,
            cluster_size=spec.cluster_size if wish.cluster_size is None else _size(wish.cluster_size),
            gpu_memory_bytes=before.gpu_memory_bytes if bytes_least is None else bytes_least,
            after_ms=milliseconds(wish.after_s, field="fallbacks") or 0,
        )
        _check_order(fallback, before, place=place)
        found.append(fallback)
        before = fallback
    return replace(spec, fallbacks=tuple(found))


def tasks_of(request: NewSession) -> ArrayTasks | None:
    """The tasks of a job array, all waiting; None for other sessions."""
    if request.array is None:
        if request.max_parallel is not None:
            raise InvalidRequest("max_parallel: only a job array has it; give array too", field="max_parallel")
        return None
    check_limit(len(request.array), field="array", most=COMMAND_BYTES_MAX, unit="characters")
    waiting = Intervals.parse(plain(request.array, field="array"))
    check_limit(len(waiting), field="array", most=ARRAY_TASKS_MAX, unit="tasks")
    most = request.max_parallel
    if most is not None:
        most = count(most, field="max_parallel", least=1, most=ARRAY_TASKS_MAX)
    return ArrayTasks(waiting=waiting, max_parallel=most)


def _size(kernels: int) -> int:
    return count(kernels, field="fallbacks", least=1, most=CLUSTER_SIZE_MAX)


def _check_order(fallback: Fallback, before: Fallback, *, place: int) -> None:
    if fallback.after_ms <= before.after_ms:
        raise InvalidRequest(
            f"fallbacks: number {place} is not later than the one before it; sort them by after_s",
            field="fallbacks",
        )
    now, was = _sizes(fallback), _sizes(before)
    larger = sorted(name for name in now if now[name] > was.get(name, 0))
    if larger:
        raise InvalidRequest(
            f"fallbacks: number {place} asks for more {', '.join(larger)} than the one before it; a fallback "
            "must be smaller in at least one amount and larger in none",
            field="fallbacks",
        )
    if now == was:
        raise InvalidRequest(
            f"fallbacks: number {place} asks for the same as the one before it; leave it out", field="fallbacks"
        )


def _sizes(fallback: Fallback) -> dict[str, int]:
    """Amounts of a request by name; slots of one kind of accelerator are added, as they draw on the same devices."""
    sizes: dict[str, int] = {"cluster_size": fallback.cluster_size, "gpu_memory_gb": fallback.gpu_memory_bytes or 0}
    for slot, amount in fallback.slots.items():
        if isinstance(amount, Unlimited):
            continue
        milli = milli_of(slot)
        name = slot.split(".")[0] if milli else str(slot)
        sizes[name] = sizes.get(name, 0) + amount * (milli or 1)
    return sizes


def limits_of(request: NewSession) -> SessionLimits:
    """Process and file limits of each kernel."""
    processes, files = request.processes, request.open_files
    if processes is not None:
        processes = count(processes, field="limits", least=PROCESSES_MIN, most=LIMIT_MAX)
    if files is not None:
        files = count(files, field="limits", least=OPEN_FILES_MIN, most=LIMIT_MAX)
    return SessionLimits(processes=processes, open_files=files)


def sandbox_of(request: NewSession) -> SandboxProfile | None:
    """The required sandbox profile."""
    if request.sandbox is None:
        return None
    try:
        return SandboxProfile(request.sandbox)
    except ValueError:
        names = ", ".join(SandboxProfile)
        raise InvalidRequest(f"sandbox: {request.sandbox[:40]!r} is none of {names}", field="sandbox") from None


def sandbox_labels(profile: SandboxProfile | None) -> dict[str, str]:
    """Labels of agents that support a sandbox profile."""
    return {} if profile is None else {SANDBOX_LABEL: str(profile)}


def secrets_of(
    asked: Sequence[tuple[str, str | None, str | None]], *, variables: Sequence[str]
) -> tuple[SecretUse, ...]:
    """The secrets of a session.

    Args:
        asked: (name, variable, file) of each.
        variables: environment variables that the session sets otherwise.
    """
    check_limit(len(asked), field="secrets", most=SECRETS_OF_SESSION_MAX)
    for name, variable, file in asked:
        if SECRET_NAME.fullmatch(name) is None:
            raise InvalidRequest(f"secrets: {name[:QUOTED_CHARS_MAX]!r} is not a name of a secret", field="secrets")
        if variable is None and file is None:
            raise InvalidRequest(f"secrets: {name} needs a variable or a file", field="secrets")
        if variable is not None:
            check_own_variable(variable, field="secrets")
        if file is not None and FILE_NAME.fullmatch(file) is None:
            raise InvalidRequest(f"secrets: {file[:QUOTED_CHARS_MAX]!r} is not a file name", field="secrets")
    _check_once([*variables, *(variable for _, variable, _ in asked if variable is not None)])
    _check_once([file for _, _, file in asked if file is not None])
    return tuple(SecretUse(name=name, as_env=variable, as_file=file) for name, variable, file in asked)


def _check_once(names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise InvalidRequest(f"secrets: {twice} is given twice", field="secrets")
