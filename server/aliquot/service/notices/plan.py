"""What a leader is told about notices, and what it does about them."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from aliquot.service.feed import Feed
from aliquot.service.journal import Journal
from aliquot.service.notices.handing import Address
from aliquot.service.notices.leaders import leader_looks
from aliquot.service.notices.lookout import Lookout
from aliquot.service.notices.outbox import Outbox
from aliquot.service.notices.room import Room
from aliquot.service.notices.rules import DEFAULTS, Rules
from aliquot.service.notices.scribe import Scribe
from aliquot.service.notices.watch import Watch
from aliquot.service.ports import Clock, Ids
from aliquot.service.state import State
from aliquot.service.watching import Outputs
from aliquot_schema.notices import AlertRule, NoticeRule


class Beginning(Protocol):
    """Of a term."""

    @property
    def epoch(self) -> int: ...

    @property
    def began_us(self) -> int: ...


class Cases(Protocol):
    """What there is of a server, whether it leads or not."""

    state: State
    journal: Journal
    clock: Clock
    feed: Feed


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticePlan:
    """By the settings."""

    ids: Ids
    addresses: Mapping[str, Address] = field(default_factory=dict)
    rules: Mapping[AlertRule, NoticeRule] = field(default_factory=lambda: DEFAULTS)
    reminder_s: int | None = None
    address: str = ""
    """Where this server is reached."""
    is_shared: bool = False
    """Whether another server may have led before."""

    def lookout(self, cases: Cases, *, why: Callable[[], str | None]) -> Lookout:
        """Of a server that may follow; see `Lookout`."""
        room = Room(state=cases.state, journal=cases.journal, clock=cases.clock, ids=self.ids)
        rules = Rules(room.state.noticed, self.rules)
        return Lookout(room, rules=rules, addresses=self.addresses, address=self.address, why=why)

    def begin(self, cases: Cases, *, outputs: Outputs, beginning: Beginning) -> "Noticing":
        """For one term."""
        room = Room(state=cases.state, journal=cases.journal, clock=cases.clock, ids=self.ids)
        rules = Rules(room.state.noticed, self.rules)
        looks = leader_looks(
            beginning.epoch, began_us=beginning.began_us, address=self.address, is_shared=self.is_shared
        )
        receivers = [address.receiver for address in self.addresses.values()]
        return Noticing(
            watch=Watch(room, rules=rules, more=looks, reminder_s=self.reminder_s),
            scribe=Scribe(room, feed=cases.feed, rules=rules, receivers=receivers) if receivers else None,
            outbox=Outbox(room, outputs=outputs, addresses=self.addresses),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Noticing:
    """`run` returns only when a loop failed, or by cancellation."""

    watch: Watch
    scribe: Scribe | None
    """None: nobody is told."""
    outbox: Outbox
    """Also without receivers: what was for earlier ones is given up."""

    async def run(self) -> None:
        """Look, write down and deliver, for ever."""
        async with asyncio.TaskGroup() as loops:
            loops.create_task(self.watch.run(), name="alerts")
            if self.scribe is not None:
                loops.create_task(self.scribe.run(), name="notices")
            loops.create_task(self.outbox.run(), name="outbox")
