"""Readers of the ledger while retention archives its oldest entries: nothing is left out without a word."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from aliquot.service.backtests.recording import HistoryReader, record
from aliquot.service.ledger.entries import PAGE, PassKey, entries_of
from aliquot_schema.errors import NotFound

pytestmark = pytest.mark.anyio


class ShrinkingLedger:
    """A ledger of the entries 1 to 1000, of which some are archived after each read."""

    def __init__(self, *archived: int) -> None:
        self._archived = list(archived)
        self.oldest = 1

    async def last(self, _: int) -> tuple[PassKey, ...]:
        return (PassKey(number=1000, revision=1000, has_checkpoint=False),)

    async def first_at(self, at_us: int) -> PassKey | None:
        return PassKey(number=at_us, revision=at_us, has_checkpoint=False)

    async def checkpoint_before(self, _: int) -> PassKey | None:
        found = PassKey(number=1, revision=1, has_checkpoint=True)
        self._shrink()
        return found

    async def checkpoint_after(self, _: int) -> PassKey | None:
        return None

    async def entries(self, *, first: int, last: int, limit: int) -> tuple[Any, ...]:
        numbers = range(max(first, self.oldest), last + 1)[:limit]
        found = tuple(SimpleNamespace(number=number, now_us=number, checkpoint=None) for number in numbers)
        self._shrink()
        return found

    def _shrink(self) -> None:
        self.oldest = self._archived.pop(0) if self._archived else self.oldest


async def test_all_entries_are_read_once_also_while_those_before_them_are_archived() -> None:
    ledger: Any = ShrinkingLedger(50, PAGE)
    found = [entry.number async for entry in entries_of(ledger, first=1, last=3 * PAGE)]
    assert found == list(range(1, 3 * PAGE + 1))


async def test_entries_that_were_archived_before_they_were_read_are_missed() -> None:
    ledger: Any = ShrinkingLedger(PAGE + 10)
    with pytest.raises(NotFound, match=f"the passes after {PAGE} were archived meanwhile"):
        [entry async for entry in entries_of(ledger, first=1, last=1000)]


async def test_a_checkpoint_that_is_archived_before_it_is_read_is_no_fault_of_the_server() -> None:
    with pytest.raises(NotFound, match="no scheduling pass of this time is recorded"):
        await record(cast("HistoryReader", ShrinkingLedger(7)), since_us=2, until_us=500)
