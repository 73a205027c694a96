"""The loop: looks at every agent that can be asked, again and again, and soon after one has joined."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

from aliquot.service.dispatch import Dispatch
from aliquot.service.draft import Draft
from aliquot.service.journal import Journal
from aliquot.service.ports import Clock, Executor, NotLeader, StoreUnavailable
from aliquot.service.reaper.differences import Difference, differences, known_kernels
from aliquot.service.reaper.examination import Finds, Look
from aliquot.service.reaper.foreign import blocked_by, foreign_uses
from aliquot.service.reaper.repairs import ACTOR, Sending, repair, write_findings
from aliquot.service.state import State
from aliquot_schema.errors import AliquotError
from aliquot_schema.findings import Discrepancy, Finding
from aliquot_schema.ids import AgentId, KernelId
from aliquot_schema.launching import Inventory

log: Final = logging.getLogger("aliquot.reaper")

LOOK_S: Final = 30.0
CONFIRM_S: Final = 3.0
"""From the first sight of a difference to the second."""
ANSWER_S: Final = 20.0
"""How long an agent is waited for."""

AGENTS_AT_ONCE: Final = 64

Key = tuple[Discrepancy, AgentId, str]


class Room(Protocol):
    """Where it works."""

    state: State
    journal: Journal
    clock: Clock


class Reaper:
    """A difference counts when it was seen twice in a row: what is on its way to us is no difference."""

    def __init__(
        self,
        room: Room,
        *,
        executor: Executor,
        dispatch: Dispatch,
        grace_ms: int,
        respect_external: bool = True,
        on_moved: Callable[[], None] = lambda: None,
    ) -> None:
        """
        Args:
            respect_external: whether devices that processes of others use are kept from everybody.
            on_moved: called when such devices are others than before.
        """
        self._state = room.state
        self._journal = room.journal
        self._clock = room.clock
        self._executor = executor
        self._dispatch = dispatch
        self._on_moved = on_moved
        self._grace_ms = grace_ms
        self._respects = respect_external
        self._seen: dict[AgentId, frozenset[tuple[Key, int | None]]] = {}
        self._woken = asyncio.Event()
        self._looking = asyncio.Lock()
        """A look that begins before another has written what it found would write it once more."""

    def wake(self) -> None:
        """Look soon: an agent has joined."""
        self._woken.set()

    async def run(self) -> None:
        """Look for ever."""
        while True:
            try:
                unsure = await self.run_once()
            except (NotLeader, StoreUnavailable):
                raise
            except Exception:
                log.exception("what was found could not be repaired; it is looked at again")
                unsure = 0
            self._woken.clear()
            try:
                async with asyncio.timeout(CONFIRM_S if unsure else LOOK_S):
                    await self._woken.wait()
            except TimeoutError:
                continue

    async def run_once(self) -> int:
        """Look at all agents; returns how many differences were seen for the first time. One look at a time."""
        async with self._looking:
            return await self._look_and_act()

    async def look_around(self) -> Look:
        """All agents that can be asked, for somebody who only wants to know."""
        answered = await self._looks()
        found = [difference for _, differing in answered.values() for difference in differing]
        found += [difference for difference in foreign_uses(self._state) if difference.agent_id in answered]
        return Look(differences=tuple(found), asked=tuple(answered))

    async def look_at(self, agent_id: AgentId) -> Finds | None:
        """What one agent has, and in what that differs, for somebody who only wants to know; None: no answer."""
        return await self._look(agent_id, known_kernels(self._state).get(agent_id, {}))

    async def _look_and_act(self) -> int:
        looks = await self._looks()
        foreign = list(foreign_uses(self._state))
        unsure = 0
        sure_foreign: dict[tuple[AgentId, str], Difference] = {}
        for agent_id, (inventory, found) in looks.items():
            found += [difference for difference in foreign if difference.agent_id == agent_id]
            before = self._seen.get(agent_id, frozenset())
            self._seen[agent_id] = frozenset((difference.key, difference.version) for difference in found)
            sure = [difference for difference in found if (difference.key, difference.version) in before]
            unsure += len(found) - len(sure)
            for difference in sure:
                if difference.kind is Discrepancy.EXTERNAL_PROCESS:
                    sure_foreign[agent_id, difference.subject] = difference
            await self._act(inventory, sure)
        if self._state.external.set(blocked_by(self._state, sure_foreign) if self._respects else {}):
            self._on_moved()
        return unsure

    async def _looks(self) -> dict[AgentId, Finds]:
        """What each agent that answers has, and in what that differs. Some are asked at one time, so that many agents
        do not keep everybody else waiting."""
        found: dict[AgentId, Finds] = {}
        agents = sorted(self._state.reachable)
        before = known_kernels(self._state)
        for first in range(0, len(agents), AGENTS_AT_ONCE):
            asked = agents[first : first + AGENTS_AT_ONCE]
            looks = await asyncio.gather(*(self._look(agent_id, before.get(agent_id, {})) for agent_id in asked))
            found |= {agent_id: look for agent_id, look in zip(asked, looks, strict=True) if look is not None}
        return found

    async def _look(self, agent_id: AgentId, before: Mapping[KernelId, int]) -> Finds | None:
        """None when it does not answer."""
        try:
            async with asyncio.timeout(ANSWER_S):
                inventory = await self._executor.inventory(agent_id)
        except (AliquotError, TimeoutError) as error:
            log.info("agent %s cannot be looked at: %s", agent_id, error)
            return None
        now_us, grace_ms = self._clock.now_us(), self._grace_ms
        return inventory, list(differences(self._state, inventory, before=before, now_us=now_us, grace_ms=grace_ms))

    async def _act(self, inventory: Inventory, sure: Iterable[Difference]) -> None:
        sure = list(sure)
        agent_id = inventory.agent.id
        if not sure and not self._standing(agent_id):
            return

        def change(draft: Draft) -> Sending:
            now_us = self._clock.now_us()
            # Asked for anew at each try: a try that failed may have been written all the same.
            write_findings(draft, agent_id, sure, standing=self._standing(agent_id), now_us=now_us)
            return repair(draft, sure, inventory, epoch=self._journal.epoch, now_us=now_us)

        for difference in sure:
            log.warning("%s: %s on agent %s: %s", difference.kind, difference.subject, agent_id, difference.evidence)
        sending = await self._journal.persist(change, actor=ACTOR)
        self._dispatch.launch({agent_id: sending.launch} if sending.launch else {})
        self._dispatch.stop(sending.stop)
        for kernel_id in sending.close:
            await self._close(agent_id, kernel_id)

    def _standing(self, agent_id: AgentId) -> list[Finding]:
        return [finding for finding in self._state.findings.values() if finding.agent_id == agent_id]

    async def _close(self, agent_id: AgentId, kernel_id: KernelId) -> None:
        try:
            await self._executor.stop(agent_id, kernel_id, epoch=self._journal.epoch, grace_ms=self._grace_ms)
        except AliquotError as error:
            log.warning("agent %s was not told to stop %s: %s", agent_id, kernel_id, error.message)
