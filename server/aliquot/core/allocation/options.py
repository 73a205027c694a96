"""Allocation options: how a request is spread over the devices of an agent, and which devices it may use."""

from enum import StrEnum
from fnmatch import fnmatchcase
from functools import lru_cache

from msgspec import Struct

KNOWN_MAX = 4096
"""Cached results."""


class ShareStrategy(StrEnum):
    """How an amount of an accelerator slot is split into parts."""

    EVENLY = "evenly"
    """The smallest difference between the parts, then the fewest devices."""
    FILL = "fill"
    """As much as fits per device, starting with the one that has the most free."""


class NumaPolicy(StrEnum):
    """Which of equally good devices make up a grant of several."""

    PREFER = "prefer"
    """Devices with a direct link, then devices of one NUMA node; the smallest group that is enough."""
    INTERLEAVE = "interleave"
    """NUMA nodes round-robin."""


class AllocationOptions(Struct, frozen=True, kw_only=True):
    """Options of an allocation."""

    strategy: ShareStrategy = ShareStrategy.EVENLY
    allow_fragmentation: bool = False
    """Whether shares that one idle device could hold may be split over several devices."""
    numa: NumaPolicy = NumaPolicy.PREFER
    gpu_memory_bytes: int | None = None
    """Minimum memory on every granted accelerator: the device's total for whole devices, the share of it for parts."""
    models: tuple[str, ...] = ()
    """Patterns that the model of every granted accelerator must match, see `is_of_model`; empty = any."""


DEFAULT_OPTIONS = AllocationOptions()


@lru_cache(KNOWN_MAX)
def is_of_model(model: str, patterns: tuple[str, ...]) -> bool:
    """Whether a model matches one of the patterns: its name, or with `*`, `?` and `[...]`; case-insensitive.

    Empty patterns match any model. A device of unknown model only matches `*`.
    """
    name = model.lower()
    return not patterns or any(name == pattern.lower() or fnmatchcase(name, pattern.lower()) for pattern in patterns)
