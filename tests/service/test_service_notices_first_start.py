"""Where notices resume after a long gap."""

from dataclasses import dataclass, field

import pytest

from aliquot.service.alerts.notifier import SEARCH_EVENTS_MAX, first_recent
from aliquot_schema.alerts import NoticeMark
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.events import Event
from service_events import event_of

pytestmark = pytest.mark.anyio


@dataclass
class Log:
    """One event a second; those up to a number are gone."""

    revision: int
    removed: int = 0
    asked: list[int] = field(default_factory=list)

    async def page(self, after: int) -> tuple[Event, ...]:
        self.asked.append(after)
        if after < self.removed:
            raise InvalidRequest("they were removed as too old", field="after")
        number = after + 1
        return (event_of(NoticeMark(), "notice_mark.moved", number=number, at_us=number * 1_000_000),)


@pytest.mark.parametrize(("after", "removed"), [(0, 0), (5_000, 0), (0, 400_000), (3_999_990, 0)])
async def test_the_first_recent_event_is_found_with_few_reads_of_the_log(after: int, removed: int) -> None:
    log = Log(revision=4_000_000, removed=removed)
    since_us = 3_900_000 * 1_000_000
    found = await first_recent(log, after=after, since_us=since_us)
    assert max(after, 3_900_000 - SEARCH_EVENTS_MAX) <= found <= max(after, 3_900_000)
    assert len(log.asked) <= 12
