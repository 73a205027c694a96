"""The weights of shares, as quotas give them."""

from typing import Final

from aliquot.core.quota_amounts import accelerators, limits
from aliquot_schema.quotas import Quota

WEIGHT: Final = 1000
"""Of those without a quota that gives one."""


def weight_of(quota: Quota | None) -> int:
    """The weight of a share, see `Quota.weight`."""
    if quota is None:
        return WEIGHT
    if quota.weight is not None:
        return quota.weight
    own, most = accelerators(limits(quota.own_slots)), accelerators(limits(quota.max_slots))
    return sum(own.values()) or sum(most.values()) or WEIGHT
