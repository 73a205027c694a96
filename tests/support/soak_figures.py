"""Drift of a soak: samples over time, the fitted slope of each figure, and the allowed slopes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The values measured at one time."""

    at_s: float
    """Since the soak began."""
    life: int
    """Its process: 0 is the first, 1 the one after the first kill, ..."""
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """A figure's slope."""

    name: str
    first: float
    """Mean of the first third of the samples."""
    last: float
    """Mean of the last third."""
    per_hour: float
    """The slope within a process's life: each life has an intercept of its own."""
    samples: int

    def words(self) -> str:
        """A row of the page's table."""
        return f"| {self.name} | {self.samples} | {self.first:,.1f} | {self.last:,.1f} | {self.per_hour:+,.2f} |"


HEAD: Final = "| figure | samples | first third | last third | slope per hour |\n|---|--:|--:|--:|--:|"


def drift(name: str, samples: Sequence[Sample], *, warm_s: float = 0.0) -> Drift | None:
    """Fit one figure by least squares; None when it was measured fewer than three times.

    Args:
        warm_s: seconds at the start of each life that are left out.
    """
    began = {life: min(one.at_s for one in samples if one.life == life) for life in {one.life for one in samples}}
    taken = [one for one in samples if name in one.values and one.at_s - began[one.life] >= warm_s]
    if len(taken) < 3:
        return None
    third = max(len(taken) // 3, 1)
    return Drift(
        name=name,
        first=fmean(one.values[name] for one in taken[:third]),
        last=fmean(one.values[name] for one in taken[-third:]),
        per_hour=3600 * _slope((one.life, one.at_s, one.values[name]) for one in taken),
        samples=len(taken),
    )


def _slope(points: Iterable[tuple[int, float, float]]) -> float:
    """Over all lives together, with an intercept for each; 0 when no life has two points."""
    lives: dict[int, list[tuple[float, float]]] = {}
    for life, x, y in points:
        lives.setdefault(life, []).append((x, y))
    above = below = 0.0
    for among in lives.values():
        x_mean, y_mean = fmean(x for x, _ in among), fmean(y for _, y in among)
        above += sum((x - x_mean) * (y - y_mean) for x, y in among)
        below += sum((x - x_mean) ** 2 for x, _ in among)
    return above / below if below else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The allowed drift of a figure."""

    name: str
    per_hour_max: float


def too_steep(drifts: Iterable[Drift], bounds: Iterable[Bound]) -> list[str]:
    """Messages on figures that drift more than allowed, or were not measured."""
    by_name = {one.name: one for one in drifts}
    found = []
    for bound in bounds:
        one = by_name.get(bound.name)
        if one is None:
            found.append(f"{bound.name} was not measured")
        elif one.per_hour > bound.per_hour_max:
            found.append(
                f"{bound.name} grows by {one.per_hour:,.2f} per hour, at most {bound.per_hour_max:,.2f} is allowed"
            )
    return found
