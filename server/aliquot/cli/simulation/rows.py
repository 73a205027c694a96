"""Rows of a comparison: one simulation run each, with a label and its policy.

Policy files are YAML with fields of the policy document, like `policy` of a scenario; other fields have their default.
"""

from collections.abc import Sequence
from enum import StrEnum
from itertools import product
from pathlib import Path
from typing import Final, TypeVar

from msgspec import Struct

from aliquot.core.model.policy import Policy
from aliquot.core.placement.strategies import making
from aliquot.core.scheduler.ordering import order_named
from aliquot.core.simulation.cluster import Estimates, SimulationSettings
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.policies import Backfill


def read_policy(path: Path) -> Policy:
    """Read a policy file.

    Raises:
        InvalidRequest: the file is wrong; the message names file, line and key.
    """
    from aliquot.core.policy_tests.rules import policy
    from aliquot.core.policy_tests.tables import documents

    try:
        entries = documents(path.read_text(encoding="utf-8"), file=str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{path} cannot be read: {error}", field="policy_file") from error
    if len(entries) != 1:
        raise InvalidRequest(f"{path} holds {len(entries)} documents, not one policy", field="policy_file")
    return policy(entries[0])


Name = TypeVar("Name", bound=StrEnum)
REFERENCES: Final = (
    ("FCFS", "fcfs", Backfill.NONE, Estimates.PREDICTED),
    ("EASY", "fcfs", Backfill.EASY, Estimates.PREDICTED),
    ("EASY, exact limits", "fcfs", Backfill.EASY, Estimates.EXACT),
    ("SJF, exact estimates", "sjf", Backfill.EASY, Estimates.EXACT),
)
"""Rows of `--references`: (label, order, backfill, estimates). The last two use run times no real scheduler knows."""


class Row(Struct, frozen=True, kw_only=True):
    """One run."""

    label: str
    settings: SimulationSettings


class Comparison(Struct, frozen=True, kw_only=True):
    """The options of a comparison."""

    orders: Sequence[str]
    backfills: Sequence[str]
    placements: Sequence[str]
    files: Sequence[Path]
    """Policy files, a row for each."""
    estimates: str
    checkpoint_ms: int | None
    has_references: bool

    def rows(self) -> tuple[Row, ...]:
        """The references, every combination of the named policies, and the files; one row per label.

        Raises:
            InvalidRequest: an unknown name, with all valid ones; a file that contains no policy.
        """
        expects = _named(Estimates, self.estimates, field="estimates")
        policies = {**self._combined(), **{path.stem: read_policy(path) for path in self.files}}
        found = [
            Row(
                label=label,
                settings=SimulationSettings(
                    policy=policy,
                    estimates=expects,
                    checkpoint_ms=self.checkpoint_ms,
                    restart_ms=policy.preemption.restart_ms,
                ),
            )
            for label, policy in policies.items()
        ]
        references = self._references() if self.has_references else ()
        return tuple({row.label: row for row in (*references, *found)}.values())

    def _combined(self) -> dict[str, Policy]:
        """Every combination; its label has the parts that differ between rows."""
        for order in self.orders:
            order_named(order)
        for placement in self.placements:
            making(placement)
        several = len(self.backfills) > 1, len(self.placements) > 1
        found = {}
        for order, name, placement in product(self.orders, self.backfills, self.placements):
            varied = [part for part, is_varied in zip((name, placement), several, strict=True) if is_varied]
            backfill = _named(Backfill, name, field="backfill")
            found[" ".join([order, *varied])] = Policy(order=order, backfill=backfill, placement=placement)
        return found

    def _references(self) -> tuple[Row, ...]:
        placement = self.placements[0]
        return tuple(
            Row(
                label=label,
                settings=SimulationSettings(
                    policy=Policy(order=order, backfill=backfill, placement=placement), estimates=estimates
                ),
            )
            for label, order, backfill, estimates in REFERENCES
        )


def _named(kind: type[Name], name: str, *, field: str) -> Name:
    """The member of an enumeration.

    Raises:
        InvalidRequest: there is none of this name; the message lists all of them.
    """
    try:
        return kind(name)
    except ValueError:
        known = ", ".join(member.value for member in kind)
        raise InvalidRequest(f"{field}: {name[:64]!r} is not one of {known}", field=field) from None
