"""Replaying: from the last checkpoint before the passes that are asked for, through all of them."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from aliquot.core.decide import decide
from aliquot.core.memo import Memo
from aliquot.core.policy import Policy
from aliquot.service.ledger.entries import PassEntry
from aliquot.service.ledger.ports import LedgerReader
from aliquot.service.replay.differences import Difference, differences
from aliquot.service.replay.folding import Fold
from aliquot_schema.errors import NotFound
from aliquot_schema.events import Event

PAGE: Final = 100
EVENTS_PAGE: Final = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """One pass, decided again."""

    entry: PassEntry
    placements: int
    waiting: int
    differences: tuple[Difference, ...]


async def replay(
    ledger: LedgerReader, *, first: int, last: int, policy: Policy | None = None
) -> AsyncIterator[Replayed]:
    """Decide passes again, in order.

    Args:
        policy: to decide by this one instead of those in force then. Only decisions change: each pass still begins
            with what came of the real ones before it.
    Raises:
        NotFound: the ledger has no checkpoint before the first one, or none of the passes.
    """
    start = await ledger.checkpoint_before(first)
    if start is None:
        raise NotFound(f"the ledger does not reach back to pass {first}", kind="pass", id=str(first))
    fold: Fold | None = None
    memo = Memo()
    found = False
    async for entry in _entries(ledger, first=start.number, last=last):
        if entry.checkpoint is not None:
            fold, memo = Fold(entry), Memo()
        else:
            assert fold is not None, "the first entry has a checkpoint"
            fold.follow(entry, await _events(ledger, after=fold.revision, until=entry.revision))
        snapshot = fold.snapshot()
        verdicts = fold.verdicts(entry, snapshot)
        if entry.number < first:
            continue
        found = True
        plan = decide(snapshot, policy or fold.rules(entry), now_us=entry.now_us, seed=entry.seed, known=memo)
        yield Replayed(
            entry=entry,
            placements=len(plan.placements),
            waiting=len(plan.verdicts),
            differences=differences(entry.number, entry.plan, plan, verdicts=verdicts),
        )
    if not found:
        raise NotFound(f"no pass from {first} to {last} decided anything", kind="pass", id=str(first))


async def _entries(ledger: LedgerReader, *, first: int, last: int) -> AsyncIterator[PassEntry]:
    while page := await ledger.entries(first=first, last=last, limit=PAGE):
        for entry in page:
            yield entry
        first = page[-1].number + 1


async def _events(ledger: LedgerReader, *, after: int, until: int) -> list[Event]:
    found: list[Event] = []
    while after < until:
        page = await ledger.events_after(after, limit=min(EVENTS_PAGE, until - after))
        if not page:
            raise NotFound(f"event {after + 1} is not in the log any more", kind="event", id=str(after + 1))
        found += page
        after = page[-1].number
    return found
