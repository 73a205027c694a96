"""Terms: what a request says beside its command and its slots: where it may run, what it settles for, how it ends."""

from collections.abc import Sequence
from dataclasses import replace
from signal import SIGKILL, SIGSTOP, Signals, valid_signals
from typing import Final

from aliquot.core.field_checks import check_limit, count, label, milliseconds, plain
from aliquot.core.snapshot import milli_of
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.intervals import Intervals
from aliquot_schema.requests import NewFallback, NewSession
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
from aliquot_schema.slots import ResourceSlot, Unlimited

GRACE_S_MAX: Final = 86_400
MODELS_MAX: Final = 64
NOT_CAUGHT: Final = frozenset({int(SIGKILL), int(SIGSTOP)})


def named_values(pairs: Sequence[tuple[str, str]], *, field: str) -> dict[str, str]:
    """Tags and labels: short names, each once, with short values."""
    check_limit(len(pairs), field=field, most=TAGS_MAX)
    found = {label(name, field=field) or "": label(value, field=field) or "" for name, value in pairs}
    if len(found) < len(pairs):
        raise InvalidRequest(f"{field}: a name is given twice", field=field)
    return found


def models_of(patterns: Sequence[str], *, field: str) -> tuple[str, ...]:
    """Patterns of accelerator models; the same one twice counts once."""
    check_limit(len(patterns), field=field, most=MODELS_MAX)
    if not all(pattern.strip() for pattern in patterns):
        raise InvalidRequest(f"{field}: a model is empty; name one, or write a pattern like *H100*", field=field)
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
            f"checkpoint_signal: {text[:32]!r} is no signal; write one like SIGUSR1 or 10", field="checkpoint_signal"
        )
    if number in NOT_CAUGHT:
        raise InvalidRequest(
            f"checkpoint_signal: no process can catch {text[:32]}; take one like SIGUSR1", field="checkpoint_signal"
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

    A wish without a size of its gang has that of the session, and one without memory that of the wish before it.

    Args:
        slots: of each wish, read before.
        memory: the least memory per device that each wish names, in bytes.
    Raises:
        InvalidRequest: one is not smaller than the one before it, or not later.
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
    """The tasks of a job array, all of them waiting; None for a session that is none."""
    if request.array is None:
        if request.max_parallel is not None:
            raise InvalidRequest("max_parallel: it limits a job array; say array too", field="max_parallel")
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
            f"fallbacks: number {place} is not taken later than the one before it; sort them by after_s",
            field="fallbacks",
        )
    now, was = _sizes(fallback), _sizes(before)
    larger = sorted(name for name in now if now[name] > was.get(name, 0))
    if larger:
        raise InvalidRequest(
            f"fallbacks: number {place} asks for more {', '.join(larger)} than the one before it; a fallback "
            "is smaller in something and larger in nothing",
            field="fallbacks",
        )
    if now == was:
        raise InvalidRequest(
            f"fallbacks: number {place} asks for the same as the one before it; leave it out", field="fallbacks"
        )


def _sizes(fallback: Fallback) -> dict[str, int]:
    """What a request takes, by name; all slots of one kind of accelerator draw on the same devices."""
    sizes: dict[str, int] = {"cluster_size": fallback.cluster_size, "gpu_memory_gb": fallback.gpu_memory_bytes or 0}
    for slot, amount in fallback.slots.items():
        if isinstance(amount, Unlimited):
            continue
        milli = milli_of(slot)
        name = slot.split(".")[0] if milli else str(slot)
        sizes[name] = sizes.get(name, 0) + amount * (milli or 1)
    return sizes
