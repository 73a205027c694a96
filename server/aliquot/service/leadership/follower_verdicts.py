"""Follower verdicts: a follower runs scheduling passes too, to say why sessions wait, and discards their plans."""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from aliquot.core.model.plan import Plan
from aliquot.core.scheduler.cache import PassCache
from aliquot.core.scheduler.decide import decide
from aliquot.service.scheduling.allocator import SEED, WAKING
from aliquot.service.state.snapshots import take
from aliquot.service.use_cases import UseCases
from aliquot_schema.async_tasks import raise_if_canceled
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.events import Entity, Event
from aliquot_schema.states import AgentState

PAUSE_S: Final = 1.0
"""Minimum pause between two passes, in seconds; the pause is also at least as long as the pass."""

log: Final = logging.getLogger("aliquot.judging")


class FollowerVerdicts:
    """Verdicts of a follower. It cannot know which agents are reachable, so all that are alive count as reachable."""

    def __init__(self, cases: UseCases) -> None:
        self._cases = cases
        self._memo = PassCache()
        self._woken = asyncio.Event()
        self._woken.set()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="judge")

    async def run(self) -> None:
        """Run a pass after each event that may change verdicts, while this server does not lead, until cancelled."""
        subscription = self._cases.journal.subscribe(self._wake_on, to=(*WAKING, Entity.AGENT))
        try:
            await self._run()
        finally:
            self._cases.journal.unsubscribe(subscription)

    async def _run(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            began = self._cases.clock.monotonic()
            if not self._cases.journal.leads:
                await self.run_once()
            raise_if_canceled()
            await self._cases.clock.sleep(max(PAUSE_S, self._cases.clock.monotonic() - began))

    async def run_once(self) -> None:
        """Run one pass, and keep its verdicts unless this server has become the leader."""
        state = self._cases.state
        state.reachable = {agent.id for agent in state.agents.values() if agent.state is AgentState.ALIVE}
        snapshot, rules, now_us = take(state), state.rules, self._cases.clock.now_us()

        def plan_of() -> Plan:
            return decide(snapshot, rules, now_us=now_us, seed=SEED, known=self._memo)

        try:
            plan = await asyncio.get_running_loop().run_in_executor(self._worker, plan_of)
        except InvalidRequest as error:
            log.error("the policy cannot be applied: %s", error)
            return
        if not self._cases.journal.leads:
            state.backlogs.update(plan.backlogs)
            state.judge(plan.verdicts, promised_us=plan.promised_us())

    def close(self) -> None:
        """Stop the worker thread."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _wake_on(self, _event: Event) -> None:
        self._woken.set()
