"""What a leader is told about retention."""

from collections.abc import Callable
from dataclasses import dataclass

from aliquot.service.leaps import Leaps
from aliquot.service.ports import Clock
from aliquot.service.retention.periods import Periods
from aliquot.service.retention.ports import History, Memory
from aliquot.service.retention.retaining import Retaining


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPlan:
    """How long things are kept, and where they go."""

    periods: Periods
    open_history: Callable[[int], History]
    """Makes it for a leader's epoch."""

    def begin(self, epoch: int, *, memory: Memory, clock: Clock, leaps: Leaps) -> Retaining:
        """For one term."""
        return Retaining(self.open_history(epoch), memory=memory, clock=clock, periods=self.periods, leaps=leaps)
