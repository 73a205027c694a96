"""Reaper: inspects every reachable agent every 30 seconds, and soon after an agent joined.

A difference counts only when two inspections in a row observe it, because messages may be on their way.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

from aliquot.service.agents.differences import (
    Difference,
    blocked_by,
    differences,
    foreign_users,
    foreign_uses,
    known_kernels,
)
from aliquot.service.agents.doctor import Findings, InspectionResult
from aliquot.service.agents.repairs import ACTOR, RepairOrders, repair, write_findings
from aliquot.service.lifecycle.agent_registration import drop_left_devices, with_left_devices
from aliquot.service.ports import Clock, Executor, NotLeader, StoreUnavailable
from aliquot.service.scheduling.dispatch import Dispatch
from aliquot.service.state.journal import Journal
from aliquot.service.state.state import State
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot_schema.cluster.findings import Discrepancy, Finding
from aliquot_schema.cluster.launching import Inventory
from aliquot_schema.errors import AliquotError
from aliquot_schema.ids import AgentId, KernelId
from aliquot_schema.states import KernelState

log: Final = logging.getLogger("aliquot.reaper")

INTERVAL_S: Final = 30.0
CONFIRM_S: Final = 3.0
"""From the first observation of a difference to the second."""
ANSWER_S: Final = 20.0
"""How long an agent has to answer."""

AGENTS_PER_STEP: Final = 100
"""Agents whose devices are checked before other work of the event loop gets its turn."""
PARALLEL_AGENTS: Final = 32

Key = tuple[Discrepancy, AgentId, str]


class ReaperContext(Protocol):
    """Dependencies of the reaper."""

    state: State
    journal: Journal
    clock: Clock


class Reaper:
    """Confirms differences, records them as findings, and repairs what can be repaired."""

    def __init__(
        self,
        context: ReaperContext,
        *,
        executor: Executor,
        dispatch: Dispatch,
        grace_ms: int,
        respect_foreign_usage: bool = True,
        on_moved: Callable[[], None] = lambda: None,
    ) -> None:
        """
        Args:
            respect_foreign_usage: whether devices used by foreign processes are blocked.
            on_moved: called when the set of blocked devices has changed.
        """
        self._state = context.state
        self._journal = context.journal
        self._clock = context.clock
        self._executor = executor
        self._dispatch = dispatch
        self._on_moved = on_moved
        self._grace_ms = grace_ms
        self._respects = respect_foreign_usage
        self._seen: dict[AgentId, frozenset[tuple[Key, int | None]]] = {}
        self._woken = asyncio.Event()
        self._lock = asyncio.Lock()
        """Overlapping inspections would record the same findings twice."""

    def wake(self) -> None:
        """Inspect soon: an agent has joined."""
        self._woken.set()

    async def run(self) -> None:
        """Inspect until canceled."""
        while True:
            try:
                unconfirmed = await self.run_once()
            except (NotLeader, StoreUnavailable):
                raise
            except Exception:
                log.exception("the inspection of agents failed; next attempt in %g s", INTERVAL_S)
                unconfirmed = 0
            self._woken.clear()
            try:
                async with asyncio.timeout(CONFIRM_S if unconfirmed else INTERVAL_S):
                    await self._woken.wait()
            except TimeoutError:
                continue

    async def run_once(self) -> int:
        """Inspect all agents and act; returns how many differences were observed for the first time. Calls are
        serialized."""
        async with self._lock:
            return await self._inspect_and_act()

    async def inspect_all(self) -> InspectionResult:
        """Inspect all reachable agents without any repair."""
        answered = await self._inspect_reachable()
        found = [difference for _, differing in answered.values() for difference in differing]
        found += [difference for difference in foreign_uses(self._state) if difference.agent_id in answered]
        return InspectionResult(differences=tuple(found), asked=tuple(answered))

    async def inspect(self, agent_id: AgentId) -> Findings | None:
        """Inspect one agent without any repair; None: no answer."""
        return await self._inspect(agent_id, known_kernels(self._state).get(agent_id, {}))

    async def accounts(self, account: str) -> Mapping[AgentId, bool | None]:
        """See `Inspector.accounts`."""
        asked = sorted(self._state.reachable)
        return dict(zip(asked, await asyncio.gather(*(self._has(id, account) for id in asked)), strict=True))

    async def _has(self, agent_id: AgentId, account: str) -> bool | None:
        try:
            async with asyncio.timeout(ANSWER_S):
                return await self._executor.has_account(agent_id, account)
        except (AliquotError, TimeoutError) as error:
            log.info("agent %s cannot be asked for the account %s: %s", agent_id, account, error)
            return None

    async def _inspect_and_act(self) -> int:
        inspections = await self._inspect_reachable()
        foreign = list(foreign_uses(self._state))
        unconfirmed = 0
        # An agent that did not answer in time still sends readings, and its devices are granted.
        silent = self._state.reachable - inspections.keys()
        confirmed_foreign = {
            (difference.agent_id, difference.subject): difference
            for difference in foreign
            if difference.agent_id in silent and self._is_seen(difference)
        }
        for agent_id, (inventory, found) in inspections.items():
            found += [difference for difference in foreign if difference.agent_id == agent_id]
            confirmed = [difference for difference in found if self._is_seen(difference)]
            self._seen[agent_id] = frozenset((difference.key, difference.version) for difference in found)
            unconfirmed += len(found) - len(confirmed)
            for difference in confirmed:
                if difference.kind is Discrepancy.EXTERNAL_PROCESS:
                    confirmed_foreign[agent_id, difference.subject] = difference
            await self._act(inventory, confirmed)
        if await self._has_left_devices():
            await self._journal.persist(lambda draft: drop_left_devices(draft, self._state), actor=ACTOR)
        blocked = blocked_by(self._state, confirmed_foreign) if self._respects else {}
        if self._state.foreign_usage.set(blocked, users=foreign_users(self._state, confirmed_foreign)):
            self._on_moved()
        return unconfirmed

    def _is_seen(self, difference: Difference) -> bool:
        """Whether the inspection before had this difference too."""
        return (difference.key, difference.version) in self._seen.get(difference.agent_id, frozenset())

    async def _has_left_devices(self) -> bool:
        """Whether a device has left and is free by now. Other work of the event loop goes on between two parts."""
        agents = tuple(self._state.agents.values())
        for first in range(0, len(agents), AGENTS_PER_STEP):
            if with_left_devices(self._state, agents[first : first + AGENTS_PER_STEP]):
                return True
            await asyncio.sleep(0)
        return False

    async def _inspect_reachable(self) -> dict[AgentId, Findings]:
        """Inventories and differences of the agents that answer. Some are queried in parallel, so that a large
        cluster does not take long."""
        found: dict[AgentId, Findings] = {}
        agents = sorted(self._state.reachable)
        before = known_kernels(self._state)
        for first in range(0, len(agents), PARALLEL_AGENTS):
            asked = agents[first : first + PARALLEL_AGENTS]
            inspections = await asyncio.gather(
                *(self._inspect(agent_id, before.get(agent_id, {})) for agent_id in asked)
            )
            found |= {agent_id: one for agent_id, one in zip(asked, inspections, strict=True) if one is not None}
        return found

    async def _inspect(self, agent_id: AgentId, before: Mapping[KernelId, int]) -> Findings | None:
        """None when the agent does not answer."""
        try:
            async with asyncio.timeout(ANSWER_S):
                inventory = await self._executor.inventory(agent_id)
        except (AliquotError, TimeoutError) as error:
            log.info("agent %s cannot be inspected: %s", agent_id, error)
            return None
        now_us, grace_ms = self._clock.now_us(), self._grace_ms
        before = {id: version for id, version in before.items() if not self._awaits_order(id)}
        return inventory, list(differences(self._state, inventory, before=before, now_us=now_us, grace_ms=grace_ms))

    def _awaits_order(self, kernel_id: KernelId) -> bool:
        """Whether an agent does not know a kernel yet because its workspace is still brought."""
        kernel = self._state.kernels.get(kernel_id)
        is_starting = kernel is not None and kernel.state is KernelState.STARTING
        return is_starting and self._dispatch.is_bringing(kernel_id)

    async def _act(self, inventory: Inventory, confirmed: Iterable[Difference]) -> None:
        confirmed = list(confirmed)
        agent_id = inventory.agent.id
        if not confirmed and not self._open_findings(agent_id):
            return

        def change(draft: UnitOfWork) -> RepairOrders:
            now_us = self._clock.now_us()
            # Read at each attempt: an attempt that was reported as failed may have been committed.
            write_findings(draft, agent_id, confirmed, known=self._open_findings(agent_id), now_us=now_us)
            return repair(draft, confirmed, inventory, epoch=self._journal.epoch, now_us=now_us)

        for difference in confirmed:
            log.warning("%s: %s on agent %s: %s", difference.kind, difference.subject, agent_id, difference.evidence)
        orders = await self._journal.persist(change, actor=ACTOR)
        self._dispatch.launch(orders.launch)
        self._dispatch.stop(orders.stop)
        self._dispatch.stop_orphans(agent_id, orders.close)

    def _open_findings(self, agent_id: AgentId) -> list[Finding]:
        return [finding for finding in self._state.findings.values() if finding.agent_id == agent_id]
