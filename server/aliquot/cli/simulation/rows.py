"""The rows of a comparison: one run each, with a name and what it is made with."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from typing import Final, TypeVar

from aliquot.core.ordering import order_named
from aliquot.core.placement.strategies import making
from aliquot.core.policy import Policy
from aliquot.core.simulation.settings import Estimates, Settings
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.policies import Backfill

Name = TypeVar("Name", bound=StrEnum)
REFERENCES: Final = (
    ("FCFS", "fcfs", Backfill.NONE, Estimates.PREDICTED),
    ("EASY", "fcfs", Backfill.EASY, Estimates.PREDICTED),
    ("EASY, exact limits", "fcfs", Backfill.EASY, Estimates.EXACT),
    ("SJF, exact estimates", "sjf", Backfill.EASY, Estimates.EXACT),
)
"""What to compare with: (label, order, backfill, estimates). The last two know what no scheduler can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One run."""

    label: str
    settings: Settings


def rows(
    orders: Sequence[str],
    backfills: Sequence[str],
    placements: Sequence[str],
    *,
    estimates: str,
    checkpoint_ms: int | None = None,
    has_references: bool,
) -> tuple[Row, ...]:
    """Every combination, and before them what to compare with; a label has those parts of it that differ between rows.

    Raises:
        InvalidRequest: a name that there is not; the message lists those that there are.
    """
    for order in orders:
        order_named(order)
    for placement in placements:
        making(placement)
    expects = _named(Estimates, estimates, field="estimates")
    found = [
        Row(
            label=" ".join(
                part
                for part, choices in ((order, ()), (backfill, backfills), (placement, placements))
                if len(choices) != 1
            ),
            settings=Settings(
                policy=Policy(order=order, backfill=_named(Backfill, backfill, field="backfill"), placement=placement),
                estimates=expects,
                checkpoint_ms=checkpoint_ms,
            ),
        )
        for order, backfill, placement in product(orders, backfills, placements)
    ]
    references = _references(placements[0]) if has_references else ()
    return tuple({row.label: row for row in (*references, *found)}.values())


def _references(placement: str) -> tuple[Row, ...]:
    return tuple(
        Row(
            label=label,
            settings=Settings(policy=Policy(order=order, backfill=backfill, placement=placement), estimates=estimates),
        )
        for label, order, backfill, estimates in REFERENCES
    )


def _named(kind: type[Name], name: str, *, field: str) -> Name:
    """The member of that name.

    Raises:
        InvalidRequest: there is none; the message names those that there are.
    """
    try:
        return kind(name)
    except ValueError:
        known = ", ".join(member.value for member in kind)
        raise InvalidRequest(f"{field}: {name[:64]!r} is none of {known}", field=field) from None
