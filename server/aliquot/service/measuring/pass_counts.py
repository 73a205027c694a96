"""Counts of passes: how long they took, what they decided, and what of it still held when it was carried out."""

from typing import Protocol

from aliquot.service.measuring.tallies import SHORT_S, Histogram, Tally


class PassOutcome(Protocol):
    """What one pass did, see `aliquot.service.allocator.PassCounts`."""

    @property
    def placed(self) -> int:
        """Sessions and tasks that were given devices."""

    @property
    def overtaken(self) -> int:
        """Placements that no longer fitted the newest state."""


class PassMeasures:
    """Of the allocator of this server."""

    def __init__(self) -> None:
        self.seconds = Histogram(SHORT_S)
        """From the snapshot until the plan is carried out."""
        self.items = Tally("outcome")
        """Placements of plans: `carried_out`, or `refused` at the re-check."""
        for outcome in ("carried_out", "refused"):
            self.items.begin(outcome)

    def ends(self, outcome: PassOutcome, *, took_s: float) -> None:
        """Take in a pass."""
        self.seconds.observe(took_s)
        self.items.add("carried_out", amount=outcome.placed)
        self.items.add("refused", amount=outcome.overtaken)
