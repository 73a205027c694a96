"""Textbook backfill on identical devices: the reference for our implementation.

Sources: Lifka, JSSPP 1995 (EASY, on counts); Mu'alem & Feitelson, IEEE TPDS 2001 (conservative).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Job:
    """A number of devices for a time from now on, in any unit."""

    name: str
    size: int
    lasts: int


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Sessions that start now, and the latest start of a waiting head."""

    starts: tuple[str, ...]
    promise: tuple[str, int] | None


def easy(total: int, *, running: Sequence[Job], queue: Sequence[Job]) -> Outcome:
    """The head waits for its shadow time; others start if they end by then, or leave the head enough."""
    held = list(running)
    starts: list[str] = []
    waiting = list(queue)
    while waiting and waiting[0].size <= _free(total, held):
        held.append(waiting.pop(0))
        starts.append(held[-1].name)
    if not waiting:
        return Outcome(starts=tuple(starts), promise=None)
    head = waiting.pop(0)
    shadow = next(at for at in sorted({job.lasts for job in held}) if _free_at(total, held, at) >= head.size)
    for job in waiting:
        extra = _free_at(total, held, shadow) - head.size
        if job.size <= _free(total, held) and (job.lasts <= shadow or job.size <= extra):
            held.append(job)
            starts.append(job.name)
    return Outcome(starts=tuple(starts), promise=(head.name, shadow))


class Timeline:
    """The intervals in which devices are taken; a session stays on its devices until its end."""

    def __init__(self, devices: Iterable[str]) -> None:
        self._spans: dict[str, list[tuple[int, int]]] = {device: [] for device in devices}

    def take(self, devices: Iterable[str], first: int, last: int) -> None:
        """Mark devices as taken; asserts that they are free."""
        for device in devices:
            assert self._is_free(device, first, last)
            self._spans[device].append((first, last))

    def first(self, size: int, *, lasts: int) -> int:
        """The first time at which `size` devices are free for a duration."""
        times = sorted({0, *(last for spans in self._spans.values() for _, last in spans)})
        return next(at for at in times if sum(self._is_free(device, at, at + lasts) for device in self._spans) >= size)

    def _is_free(self, device: str, first: int, last: int) -> bool:
        return all(end <= first or last <= begin for begin, end in self._spans[device])


def _free(total: int, held: Sequence[Job]) -> int:
    return total - sum(job.size for job in held)


def _free_at(total: int, held: Sequence[Job], at: int) -> int:
    return total - sum(job.size for job in held if job.lasts > at)
