"""Differences between a pass as it was decided and as it is decided now."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final

from aliquot.core.plan import Plan
from aliquot_schema.ids import SessionId
from aliquot_schema.reasons import Verdict

COMPARED: Final = ("placements", "evictions", "promises")
"""Sequences, of which order is part of the decision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing that came out in another way."""

    pass_number: int
    what: str
    """`placements`, `verdicts`, `reservation`, ..."""
    of: str
    """The session that it is about; empty = nobody's in particular."""
    was: Any
    """None = there was nothing of the kind."""
    now: Any


def differences(number: int, was: Plan, now: Plan, *, verdicts: Mapping[SessionId, Verdict]) -> tuple[Difference, ...]:
    """Compare two plans of one pass; `was` has no verdicts, they are given beside it."""
    pairs = [
        *_of_mapping("verdicts", verdicts, now.verdicts),
        *_of_mapping("failures", was.failures, now.failures),
        *_of_mapping("fallbacks", was.fallbacks, now.fallbacks),
        *(pair for what in COMPARED for pair in _of_sequence(what, getattr(was, what), getattr(now, what))),
    ]
    pairs += [
        (what, "", getattr(was, what), getattr(now, what))
        for what in ("reservation", "wake_at_us")
        if getattr(was, what) != getattr(now, what)
    ]
    return tuple(Difference(pass_number=number, what=what, of=of, was=old, now=new) for what, of, old, new in pairs)


Pair = tuple[str, str, Any, Any]


def _of_mapping(what: str, was: Mapping[SessionId, Any], now: Mapping[SessionId, Any]) -> Iterator[Pair]:
    for name in {**was, **now}:
        if was.get(name) != now.get(name):
            yield what, name, was.get(name), now.get(name)


def _of_sequence(what: str, was: tuple[Any, ...], now: tuple[Any, ...]) -> Iterator[Pair]:
    for old, new in zip_longest(was, now):
        if old != new:
            yield what, (new if old is None else old).session_id, old, new
