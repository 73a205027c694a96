"""Judging: a follower decides too, to know why sessions wait as the leader does, and carries nothing out."""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from aliquot.core.decide import decide
from aliquot.core.memo import Memo
from aliquot.core.plan import Plan
from aliquot.service.allocator import SEED, WAKING
from aliquot.service.leadership.canceling import raise_if_canceled
from aliquot.service.snapshots import take
from aliquot.service.use_cases import UseCases
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.events import Entity, Event
from aliquot_schema.states import AgentState

PAUSE_S: Final = 1.0
"""Between two passes, at least; what people read need not be newer. At most half of the time is spent on them."""

log: Final = logging.getLogger("aliquot.judging")


class Judging:
    """What a leader alone knows, which agents can be asked, is taken to be all that are alive."""

    def __init__(self, cases: UseCases) -> None:
        self._cases = cases
        self._memo = Memo()
        self._woken = asyncio.Event()
        self._woken.set()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="judge")
        cases.journal.listeners.append(self._hear)

    async def run(self) -> None:
        """Judge for ever, whenever something may have changed, and as long as this server does not lead."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            began = self._cases.clock.monotonic()
            if not self._cases.journal.leads:
                await self.run_once()
            raise_if_canceled()
            await self._cases.clock.sleep(max(PAUSE_S, self._cases.clock.monotonic() - began))

    async def run_once(self) -> None:
        """One pass."""
        state = self._cases.state
        state.reachable = {agent.id for agent in state.agents.values() if agent.state is AgentState.ALIVE}
        snapshot, rules, now_us = take(state), state.rules, self._cases.clock.now_us()

        def judge() -> Plan:
            return decide(snapshot, rules, now_us=now_us, seed=SEED, known=self._memo)

        try:
            plan = await asyncio.get_running_loop().run_in_executor(self._worker, judge)
        except InvalidRequest as error:
            log.error("the policy cannot be followed: %s", error)
            return
        if not self._cases.journal.leads:
            state.judge(plan.verdicts, promised_us=plan.promised_us())

    def close(self) -> None:
        """Let go of the worker thread."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _hear(self, event: Event) -> None:
        if event.kind in WAKING or event.entity is Entity.AGENT:
            self._woken.set()
