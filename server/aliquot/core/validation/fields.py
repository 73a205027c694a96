"""Field checks of requests: each returns the value as stored, or raises an error that names the field. First the checks
of plain values, then those of constraints, fallbacks, signals, job arrays, limits, sandbox and secrets."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from signal import SIGKILL, SIGSTOP, Signals, valid_signals
from typing import Final

from msgspec.structs import replace

from aliquot.core.model.snapshot import milli_of
from aliquot_schema.errors import InvalidRequest, LimitExceeded
from aliquot_schema.identity.secrets import FILE_NAME, SECRET_NAME, SECRETS_OF_SESSION_MAX, SecretUse
from aliquot_schema.ids import WORKSPACE_ID, ProjectId
from aliquot_schema.intervals import Intervals
from aliquot_schema.metrics import MetricPattern, patterns_fault
from aliquot_schema.requests import NewFallback, NewSession
from aliquot_schema.resources.confinement import (
    IMAGES_LABEL,
    LIMIT_MAX,
    OPEN_FILES_MIN,
    PROCESSES_MIN,
    SANDBOX_LABEL,
    SandboxProfile,
    SessionLimits,
)
from aliquot_schema.resources.slots import ResourceSlot, Unlimited
from aliquot_schema.sessions import (
    APPS_MAX,
    ARRAY_TASKS_MAX,
    CLUSTER_SIZE_MAX,
    COMMAND_BYTES_MAX,
    DEFAULT_PROJECT,
    DURATION_S_MAX,
    ENVIRONMENT_CHARS_MAX,
    FALLBACKS_MAX,
    IMAGE_CHARS_MAX,
    PREFLIGHT_LIMIT_MS,
    PREFLIGHT_LIMIT_S_MAX,
    TAGS_MAX,
    UV,
    ArrayTasks,
    Fallback,
    Preflight,
    SessionSpec,
)

RESERVED_PREFIX: Final = "ALIQUOT_"
RESERVED: Final = frozenset(
    {
        "CHECKPOINT_DIR",
        "CUDA_DEVICE_ORDER",
        "CUDA_VISIBLE_DEVICES",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "NODE_RANK",
        "NVIDIA_VISIBLE_DEVICES",
        "RANK",
        "RESULT_DIR",
        "WORLD_SIZE",
    }
)
"""Variables that Aliquot sets in a kernel; a user's value would be overridden."""
_IMAGE: Final = re.compile(r"[A-Za-z0-9/][A-Za-z0-9._/:@+-]*", re.ASCII)
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_APP_NAME: Final = re.compile(r"[a-z][a-z0-9]{0,11}", re.ASCII)
"""With the id of a task of an array it fits into the 63 characters of a part of a host name."""
PORT_MAX: Final = 65_535
PROJECTS_MAX: Final = 64
_PROJECT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
NAME_CHARS_MAX: Final = 256


def check_own_variable(name: str, *, field: str) -> None:
    """Check the name of an environment variable of a user.

    Raises:
        InvalidRequest: not a variable name, or one that Aliquot sets.
    """
    if _VARIABLE.fullmatch(name) is None:
        raise InvalidRequest(f"{field}: {name[:64]!r} is not a variable name", field=field)
    if name.startswith(RESERVED_PREFIX) or name in RESERVED:
        raise InvalidRequest(
            f"{field}: {name[:64]} is set by Aliquot; leave it out, or choose another name", field=field
        )


def count(value: int, *, field: str, least: int, most: int) -> int:
    """A whole number in [least, most]."""
    if value < least:
        raise InvalidRequest(f"{field}: {value} is less than {least}", field=field)
    check_limit(value, field=field, most=most)
    return value


def check_limit(value: int, *, field: str, most: int, unit: str = "") -> None:
    """Check a number, or a count of `unit`, against its limit.

    Raises:
        LimitExceeded: it is above.
    """
    if value > most:
        amount = f"{value} {unit} are" if unit else f"{value} is"
        raise LimitExceeded(f"{field}: {amount} more than {most}", field=field, limit=most, actual=value)


def project_names(names: Iterable[str]) -> tuple[ProjectId, ...]:
    """Check project names; returned sorted, without duplicates."""
    found = tuple(sorted(dict.fromkeys(names)))
    check_limit(len(found), field="projects", most=PROJECTS_MAX, unit="projects")
    for name in found:
        check_project_name(name, field="projects")
        if name == DEFAULT_PROJECT:
            raise InvalidRequest(f"projects: all users may submit to {name}, so it has no members", field="projects")
    return tuple(ProjectId(name) for name in found)


def check_project_name(name: str, *, field: str) -> None:
    """Check the name of a new project.

    Raises:
        InvalidRequest.
    """
    if not _PROJECT.fullmatch(name):
        text = f"{field}: give 1 to 64 letters (a to z), digits and . _ + -, beginning with a letter or digit"
        raise InvalidRequest(text, field=field)


def milliseconds(seconds: float | None, *, field: str, most_s: int = DURATION_S_MAX) -> int | None:
    """A duration in milliseconds, from seconds in (0, most_s]; None stays None."""
    if seconds is None:
        return None
    if not 0 < seconds <= most_s:
        raise InvalidRequest(f"{field}: give more than 0 s and at most {most_s} s, not {seconds:g} s", field=field)
    return max(1, round(seconds * 1000))


def label(text: str | None, *, field: str) -> str | None:
    """A short name; None stays None."""
    if text is None:
        return None
    check_limit(len(text), field=field, most=NAME_CHARS_MAX, unit="characters")
    return plain(text, field=field)


def plain(text: str, *, field: str) -> str:
    """Text that processes and databases accept."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidRequest(
            f"{field}: it contains an unpaired surrogate, which is not valid text", field=field
        ) from None
    if "\0" in text:
        raise InvalidRequest(f"{field}: it contains a NUL character", field=field)
    return text


GRACE_S_MAX: Final = 86_400
CHECKPOINT_EVERY_S_MIN: Final = 1
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


def checkpoint_every_of(seconds: float | None) -> int | None:
    """The promised interval of checkpoints, in milliseconds."""
    if seconds is not None and seconds < CHECKPOINT_EVERY_S_MIN:
        text = f"checkpoint_every: {seconds:g} s is too short; give at least {CHECKPOINT_EVERY_S_MIN} s"
        raise InvalidRequest(text, field="checkpoint_every")
    return milliseconds(seconds, field="checkpoint_every")


def metrics_of(given: Sequence[tuple[str, str]]) -> tuple[MetricPattern, ...]:
    """The metrics in a session's output. Raises InvalidRequest."""
    found = tuple(MetricPattern(name=name, pattern=pattern) for name, pattern in given)
    fault = patterns_fault(found) if found else None
    if fault is not None:
        raise InvalidRequest(f"metrics: {fault}", field="metrics")
    return found


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
        raise InvalidRequest(
            f"sandbox: {request.sandbox[:40]!r} is unknown; use one of {names}", field="sandbox"
        ) from None


def sandbox_labels(profile: SandboxProfile | None) -> dict[str, str]:
    """Labels of agents that support a sandbox profile."""
    return {} if profile is None else {SANDBOX_LABEL: str(profile)}


def apps_of(asked: Sequence[tuple[str, int]]) -> dict[str, int]:
    """The apps of a session: ports by name."""
    check_limit(len(asked), field="apps", most=APPS_MAX)
    found: dict[str, int] = {}
    for name, port in asked:
        if _APP_NAME.fullmatch(name) is None:
            words = f"apps: {name[:QUOTED_CHARS_MAX]!r} is not a name of an app; give up to 12 letters a-z and digits, "
            raise InvalidRequest(f"{words}the first a letter", field="apps")
        if name in found or name == "token":
            words = "is given twice" if name in found else "cannot be used: ALIQUOT_APP_TOKEN is another variable"
            raise InvalidRequest(f"apps: {name} {words}", field="apps")
        found[name] = count(port, field="apps", least=0, most=PORT_MAX)
    return found


def image_of(request: NewSession) -> str | None:
    """The container image."""
    asked = request.image
    if asked is None:
        return None
    check_limit(len(asked), field="image", most=IMAGE_CHARS_MAX, unit="characters")
    if _IMAGE.fullmatch(asked) is None:
        words = f"image: {asked[:QUOTED_CHARS_MAX]!r} is not the name of an image; give one like"
        raise InvalidRequest(f"{words} docker.io/library/python:3.12", field="image")
    if request.sandbox is not None or request.activates is not None:
        text = "image: a container is a sandbox and an environment of its own; leave sandbox and activates out"
        raise InvalidRequest(text, field="image")
    return asked


def image_labels(image: str | None) -> dict[str, str]:
    """Labels of agents that can run containers."""
    return {} if image is None else {IMAGES_LABEL: "yes"}


def workspace_of(request: NewSession) -> str | None:
    """The id of a workspace."""
    if request.workspace is None:
        return None
    if WORKSPACE_ID.fullmatch(request.workspace) is None:
        raise InvalidRequest("workspace: give the id that an upload returned, 40 hexadecimal digits", field="workspace")
    if request.working_directory is not None:
        raise InvalidRequest(
            "working_directory: the workspace is the working directory; leave one of them out",
            field="working_directory",
        )
    return request.workspace


def activates_of(request: NewSession) -> str | None:
    """The environment that is activated before the command."""
    asked = request.activates
    if asked is None:
        return None
    check_limit(len(asked), field="activates", most=ENVIRONMENT_CHARS_MAX, unit="characters")
    if asked != UV and not (asked.startswith("/") and asked.isprintable() and ":" not in asked):
        words = f"activates: {asked[:QUOTED_CHARS_MAX]!r} is not an environment; give uv, or the absolute path of a "
        raise InvalidRequest(f"{words}venv or conda environment on the nodes, without a colon", field="activates")
    return asked


def preflight_of(request: NewSession) -> Preflight | None:
    """The check before the command."""
    argv, limit_s = request.preflight, request.preflight_limit
    if argv is None:
        return None
    if request.external_lease is not None:
        raise InvalidRequest("preflight: nothing is started for an external allocation", field="preflight")
    if argv and not argv[0].strip():
        raise InvalidRequest(
            "preflight: its command is empty; leave it out for the agent's own check", field="preflight"
        )
    size = sum(len(part.encode("utf-8", "surrogatepass")) + 1 for part in argv)
    check_limit(size, field="preflight", most=COMMAND_BYTES_MAX, unit="bytes")
    for part in argv:
        plain(part, field="preflight")
    limit_ms = milliseconds(limit_s, field="preflight.time_limit", most_s=PREFLIGHT_LIMIT_S_MAX)
    return Preflight(argv=tuple(argv), limit_ms=limit_ms or PREFLIGHT_LIMIT_MS)


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
