"""What a run is made with."""

from dataclasses import dataclass
from enum import StrEnum

from aliquot.core.policy import Policy


class Estimates(StrEnum):
    """Where the expected run times come from."""

    PREDICTED = "predicted"
    """From the built-in predictor, when a job is submitted."""
    EXACT = "exact"
    """An oracle: the true run time, also as the limit. What no scheduler can know."""
    NONE = "none"
    """Nobody knows any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a run is made with."""

    policy: Policy
    estimates: Estimates = Estimates.PREDICTED
    jitter_permille: int = 0
    """Estimates are moved by up to so much either way: two runs differ, as two days do."""
    seed: int = 0
    checkpoint_ms: int | None = None
    """A job that has to make room goes on from the last multiple of this that it had worked; None = from nothing."""
