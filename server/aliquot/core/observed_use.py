"""Observed use: hours of GPUs by person, measured from the processes on them, whoever started these.

A GPU on which processes of several people run counts for each by an equal part.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct, field

HOUR_MS: Final = 3_600_000
GAP_MS_MAX: Final = 120_000
"""Longest time that is attributed to one reading."""
IDLE_PCT: Final = 1.0
"""Utilization below which a GPU is idle, in percent."""


class GpuObservation(Struct, frozen=True, kw_only=True):
    """One GPU at one moment."""

    people: tuple[str, ...]
    """Whose processes run on it, or whose session holds it; empty = free."""
    utilization_pct: float | None
    """0 to 100; None = not measured."""


class PersonUsage(Struct, frozen=True, kw_only=True):
    """What one person had, in GPU-milliseconds."""

    held_ms: float = 0.0
    idle_ms: float = 0.0
    """Part of it while the GPU was idle."""


class ObservedWeek(Struct, frozen=True, kw_only=True):
    """What was measured in one week."""

    gpu_ms: float = 0.0
    """Time of all GPUs."""
    people: Mapping[str, PersonUsage] = field(default_factory=dict)

    def after(self, gpus: Iterable[GpuObservation], *, since_ms: int) -> "ObservedWeek":
        """The week after one more look at all GPUs.

        Args:
            since_ms: milliseconds since the look before; at most `GAP_MS_MAX` of it counts.
        """
        lasts, people, total = float(min(max(since_ms, 0), GAP_MS_MAX)), dict(self.people), self.gpu_ms
        for gpu in gpus:
            total += lasts
            is_idle = gpu.utilization_pct is not None and gpu.utilization_pct < IDLE_PCT
            for person in gpu.people:
                known, part = people.get(person, PersonUsage()), lasts / len(gpu.people)
                idle_ms = known.idle_ms + (part if is_idle else 0.0)
                people[person] = PersonUsage(held_ms=known.held_ms + part, idle_ms=idle_ms)
        return ObservedWeek(gpu_ms=total, people=people)

    def as_facts(self) -> dict[str, Any]:
        """Plain values, for the event log."""
        people = {name: [round(one.held_ms), round(one.idle_ms)] for name, one in self.people.items()}
        return {"gpu_ms": round(self.gpu_ms), "people": people}

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> "ObservedWeek":
        """The week of stored values."""
        people = {name: PersonUsage(held_ms=held, idle_ms=idle) for name, (held, idle) in facts["people"].items()}
        return cls(gpu_ms=facts["gpu_ms"], people=people)


class FairPart(Struct, frozen=True, kw_only=True):
    """One person's hours beside an equal part."""

    person: str
    held_h: float
    idle_h: float
    fair_h: float
    """An equal part of all measured GPU time, among those who used GPUs."""


def fair_parts(week: ObservedWeek) -> tuple[FairPart, ...]:
    """Everybody's hours beside an equal part of all GPU time, the most hours first.

    Fair share with equal weights promises this much to each while all of them want more; what one leaves, the others
    may use. Measured hours are not demand: somebody who found no free GPU has few.
    """
    used = {name: one.held_ms for name, one in week.people.items() if one.held_ms > 0}
    return tuple(
        FairPart(
            person=name,
            held_h=used[name] / HOUR_MS,
            idle_h=week.people[name].idle_ms / HOUR_MS,
            fair_h=week.gpu_ms / len(used) / HOUR_MS,
        )
        for name in sorted(used, key=lambda name: (-used[name], name))
    )
