"""The watch: notes every pass as it begins and ends, on the loop's thread, for the ledger to write down later."""

import asyncio
import logging
from dataclasses import dataclass
from typing import Final

from aliquot.core.plan import Plan
from aliquot.core.policy import Policy
from aliquot.core.snapshot import Snapshot
from aliquot.service.external import Blocked
from aliquot.service.ledger.capture import Pass, Standing, estimates_of, standing_of
from aliquot.service.state import State
from aliquot_schema.events import Event
from aliquot_schema.ids import SessionId
from aliquot_schema.policies import PolicyDocument
from aliquot_schema.sessions import Session

log: Final = logging.getLogger("aliquot.ledger")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Begun:
    snapshot: Snapshot
    rules: Policy
    policy: PolicyDocument
    estimates: dict[SessionId, int]
    standing: Standing | None
    external: Blocked


class Watch:
    """Answers `PassWatcher`, and hears the journal's events."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._touched: dict[SessionId, None] = {}
        self._told: dict[SessionId, int] = {}
        self._begun: _Begun | None = None
        self._ended: list[Pass] = []
        self._is_due = True
        self._is_broken = True
        """Whether there is nothing before the next pass that it could be compared with."""
        self._is_stopped = False
        self.lost = 0
        """Passes that no entry tells of yet, and that will never have one."""
        self.news = asyncio.Event()

    def hear(self, event: Event) -> None:
        """What is expected of a session may change with each event of it."""
        if isinstance(event.record, Session):
            self._touched[event.record.id] = None

    def begins(self, snapshot: Snapshot, rules: Policy) -> None:
        """See `PassWatcher`."""
        standing = standing_of(self._state) if self._is_due else None
        if standing is None:
            estimates = self._new_estimates()
        else:
            estimates = estimates_of(self._state)
            self._told = dict(estimates)
        self._touched.clear()
        self._begun = _Begun(
            snapshot=snapshot,
            rules=rules,
            policy=self._state.policy,
            estimates=estimates,
            standing=standing,
            external=self._state.external.blocked,
        )

    def ends(self, plan: Plan, *, number: int, now_us: int, seed: int) -> None:
        """See `PassWatcher`."""
        begun, self._begun = self._begun, None
        if begun is None or self._is_stopped:
            return
        if begun.standing is not None:
            self._is_due = self._is_broken = False
        elif self._is_broken:
            self.lost += 1
            return
        self._ended.append(
            Pass(
                number=number,
                now_us=now_us,
                seed=seed,
                snapshot=begun.snapshot,
                rules=begun.rules,
                policy=begun.policy,
                estimates=begun.estimates,
                standing=begun.standing,
                external=begun.external,
                plan=plan,
            )
        )
        self.news.set()

    def take(self) -> tuple[list[Pass], int]:
        """What has ended since the last call, and how many passes before that are lost."""
        ended, self._ended = self._ended, []
        lost = self.lost if ended else 0
        self.lost -= lost
        return ended, lost

    def want_checkpoint(self) -> None:
        """The next pass is to bring its whole state."""
        self._is_due = True

    def lose(self, count: int) -> None:
        """So many passes, and all that were not taken yet, will never be written."""
        self.lost += count + len(self._ended)
        log.error("the decision ledger lost %d passes", self.lost)
        self._ended = []
        self._is_due = self._is_broken = True

    def stop(self) -> None:
        """Nobody will take anything any more."""
        self._is_stopped = True
        self._ended = []

    def _new_estimates(self) -> dict[SessionId, int]:
        found = {}
        for session_id in self._touched:
            forecast = self._state.forecast_of(session_id)
            if forecast is None:
                self._told.pop(session_id, None)
            elif self._told.get(session_id) != forecast.estimate_ms:
                self._told[session_id] = found[session_id] = forecast.estimate_ms
        return found
