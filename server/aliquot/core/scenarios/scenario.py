"""A scenario as a value: what there is, when it is looked at, and what is to be seen then."""

from collections.abc import Mapping
from dataclasses import dataclass

from aliquot.core.scenarios.given import Given


@dataclass(frozen=True, slots=True, kw_only=True)
class Then:
    """What is to be seen. None = not looked at."""

    starts: tuple[str, ...] | None = None
    """All that started, in any order."""
    preempts: tuple[str, ...] | None = None
    """All that were asked to make room, in any order."""
    order: tuple[str, ...] | None = None
    """The order that the queue is looked at in; those who are not named may stand anywhere."""
    waits: Mapping[str, str] | None = None
    """Reasons; others may wait, too."""
    reserved: Mapping[str, str] | None = None
    """From the beginning to the promised start."""
    on: Mapping[str, tuple[str, ...]] | None = None
    """The agents of those that started, by rank."""
    fails: tuple[str, ...] | None = None
    """All that can never run any more, in any order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One scenario of a file."""

    name: str
    file: str
    line: int
    given: Given
    after_ms: int
    """How much later it is looked at; 0 = after one pass."""
    then: Then
