"""How a request is spread over the devices of an agent."""

from dataclasses import dataclass
from enum import StrEnum


class Strategy(StrEnum):
    """How one request's amount of an accelerator's slot is cut into parts."""

    EVENLY = "evenly"
    """The smallest difference between its parts, then the fewest devices."""
    FILL = "fill"
    """As much as there is room for, from the device with most room on."""


class NumaPolicy(StrEnum):
    """Which of equally good devices make up a grant of several."""

    PREFER = "prefer"
    """Devices with a direct link, then devices of one NUMA node; the smallest group that is enough."""
    INTERLEAVE = "interleave"
    """NUMA nodes in turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationOptions:
    """What steers an allocation besides the amounts."""

    strategy: Strategy = Strategy.EVENLY
    allow_fragmentation: bool = False
    """Whether shares that one whole device could hold may be split when none has room for them."""
    numa: NumaPolicy = NumaPolicy.PREFER
    gpu_memory_bytes: int | None = None
    """The least memory on every accelerator given: the device's total for whole devices, the share of it for parts."""
    models: tuple[str, ...] = ()
    """Patterns of the models that every accelerator given may be of, see `models`; empty = any."""


DEFAULT_OPTIONS = AllocationOptions()
