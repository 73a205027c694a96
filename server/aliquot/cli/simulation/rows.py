"""The rows of a comparison: one run each, with a name and what it is made with."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from pathlib import Path
from typing import Final, TypeVar

from aliquot.cli.simulation.policy_files import read_policy
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What was asked for on the command line."""

    orders: Sequence[str]
    backfills: Sequence[str]
    placements: Sequence[str]
    files: Sequence[Path]
    """Of policies, each a row of its own."""
    estimates: str
    checkpoint_ms: int | None
    has_references: bool

    def rows(self) -> tuple[Row, ...]:
        """What to compare with, every combination of names, and the files; one row for each label.

        Raises:
            InvalidRequest: a name that there is not, with those that there are; a file that holds no policy.
        """
        expects = _named(Estimates, self.estimates, field="estimates")
        policies = {**self._combined(), **{path.stem: read_policy(path) for path in self.files}}
        found = [
            Row(label=label, settings=Settings(policy=policy, estimates=expects, checkpoint_ms=self.checkpoint_ms))
            for label, policy in policies.items()
        ]
        references = self._references() if self.has_references else ()
        return tuple({row.label: row for row in (*references, *found)}.values())

    def _combined(self) -> dict[str, Policy]:
        """Every combination; a label has those parts of it that differ between rows."""
        for order in self.orders:
            order_named(order)
        for placement in self.placements:
            making(placement)
        several = len(self.backfills) > 1, len(self.placements) > 1
        found = {}
        for order, name, placement in product(self.orders, self.backfills, self.placements):
            shown = [part for part, is_shown in zip((name, placement), several, strict=True) if is_shown]
            backfill = _named(Backfill, name, field="backfill")
            found[" ".join([order, *shown])] = Policy(order=order, backfill=backfill, placement=placement)
        return found

    def _references(self) -> tuple[Row, ...]:
        placement = self.placements[0]
        return tuple(
            Row(
                label=label,
                settings=Settings(
                    policy=Policy(order=order, backfill=backfill, placement=placement), estimates=estimates
                ),
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
