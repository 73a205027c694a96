"""What an order policy reads, and what it gives back."""

from collections.abc import Callable
from dataclasses import dataclass

from aliquot.core.fairshare import Usage
from aliquot.core.queue import IntArray, Queue
from aliquot_schema.policies import Weights


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The state that an order is made for."""

    queue: Queue
    usage: Usage
    weights: Weights
    now_us: int


Score = Callable[[Standing], IntArray]
"""[rows of the queue] whole numbers, the next session has the largest; among equals the one submitted first."""
