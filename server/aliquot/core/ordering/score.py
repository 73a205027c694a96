"""What an order policy reads, and what it gives back."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from aliquot.core.fairshare import Usage
from aliquot.core.queue import IntArray, Queue
from aliquot_schema.ids import QuotaId
from aliquot_schema.policies import Weights
from aliquot_schema.quotas import Quota


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The state that an order is made for."""

    queue: Queue
    usage: Usage
    weights: Weights
    now_us: int
    quotas: Mapping[QuotaId, Quota] = field(default_factory=dict)
    """They give the weights of shares."""


Score = Callable[[Standing], IntArray]
"""[rows of the queue] whole numbers, the next session has the largest; among equals the one submitted first."""
