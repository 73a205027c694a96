"""Fair-share example: three users of two projects, with numbers computed by the scheduler."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from aliquot.core.fairshare import NOTHING, Usage
from aliquot.core.scheduler.backlog import AGE_UNIT_MS_MIN
from aliquot.core.scheduler.shares import PARTS_PER_ONE, Shares
from aliquot_docs.markdown import table
from aliquot_schema.ids import ProjectId, UserId
from aliquot_schema.policies import DAY_MS, Weights

HOUR_US: Final = 3_600_000_000
DAY_US: Final = DAY_MS * 1000
NOW_US: Final = 30 * DAY_US
GPU: Final = 1000
POOL_GPUS: Final = 16
BACKLOG_H: Final = 8
UNIT_H: Final = BACKLOG_H + AGE_UNIT_MS_MIN / 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """A user with past usage and one queued session."""

    name: str
    project: str
    gpus: int
    hours: int
    ended_days_ago: int
    wants: int
    """GPUs of the session."""
    waits_h: int
    estimate_h: float


PEOPLE: Final = (
    Person(name="anna", project="vision", gpus=4, hours=24, ended_days_ago=0, wants=4, waits_h=9, estimate_h=8),
    Person(name="ben", project="vision", gpus=1, hours=12, ended_days_ago=7, wants=1, waits_h=3, estimate_h=0.5),
    Person(name="clara", project="speech", gpus=2, hours=24, ended_days_ago=0, wants=8, waits_h=3, estimate_h=4),
)


def usage() -> Usage:
    """The usage of all three."""
    made = Usage()
    for one in PEOPLE:
        end_us = NOW_US - one.ended_days_ago * DAY_US
        user, project = UserId(one.name), ProjectId(one.project)
        made = made.held(one.gpus * GPU, user=user, project=project, now_us=end_us - one.hours * HOUR_US)
        made = made.held(-one.gpus * GPU, user=user, project=project, now_us=end_us)
    return made


def used_h(one: Person) -> float:
    """GPU-hours after decay."""
    balance = usage().balances.get((ProjectId(one.project), UserId(one.name)), NOTHING)
    return balance.used_at(NOW_US) / GPU / 3_600_000


def fairness(one: Person) -> float:
    """Fair-share term, 0 to 1."""
    waiting = [(ProjectId(person.project), UserId(person.name)) for person in PEOPLE]
    shares = Shares(usage(), waiting=waiting, quotas={}, now_us=NOW_US)
    return shares.fairness(ProjectId(one.project), UserId(one.name)) / PARTS_PER_ONE


def terms(one: Person) -> tuple[float, float, float, float]:
    """Weighted terms for age, fair share, short jobs and priority; every priority is `normal`."""
    weights = Weights()
    half_h = weights.short_half_ms / 3_600_000
    age = weights.age * one.waits_h / UNIT_H * (1 + 1.5 * one.wants / POOL_GPUS)
    return age, weights.fair * fairness(one), weights.short * half_h / (half_h + one.estimate_h), weights.priority * 1.0


def usage_table() -> str:
    """Usage, and what remains of it after decay."""
    rows = ((one.name, one.project, f"{one.gpus} x {one.hours} h", _ago(one), f"{used_h(one):.1f}") for one in PEOPLE)
    return table(("user", "project", "used", "ended", "GPU-hours after decay"), rows)


def score_table() -> str:
    """The terms of each session; the highest sum starts next."""
    return table(("user", "age", "fair share", "short", "priority", "sum"), _rows())


def _rows() -> Iterator[tuple[str, ...]]:
    for one in sorted(PEOPLE, key=lambda one: -sum(terms(one))):
        yield (one.name, *(f"{term:.2f}" for term in terms(one)), f"**{sum(terms(one)):.2f}**")


def _ago(one: Person) -> str:
    return f"{one.ended_days_ago} days ago" if one.ended_days_ago else "now"
