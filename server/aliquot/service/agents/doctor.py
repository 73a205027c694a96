"""Inspection of agents for operators: reports differences now and repairs nothing."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Final, Protocol

from msgspec import Struct

from aliquot.core.allocation.occupancy import gpu_alloc_json, gpu_alloc_map
from aliquot.service.access import check_role
from aliquot.service.agents.differences import Difference
from aliquot.service.agents.repairs import REPAIRS
from aliquot.service.operators import OperatorCommands
from aliquot.service.ports import Clock
from aliquot.service.state.journal import Journal
from aliquot.service.state.state import State
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot.service.views.terms import moment
from aliquot_schema.cluster.findings import Discrepancy, Finding
from aliquot_schema.cluster.launching import Inventory
from aliquot_schema.errors import NotFound, Unavailable
from aliquot_schema.ids import AgentId, DeviceId, natural_key
from aliquot_schema.orchestration import Action
from aliquot_schema.requests import Caller, Role
from aliquot_schema.resources.slots import MILLI
from aliquot_schema.states import AgentState
from aliquot_schema.views.server import DifferenceView, ExaminationView, RescanView

OF_SPECS: Final = frozenset(
    {Discrepancy.SPEC_DIFFERS, Discrepancy.SPEC_WITHOUT_LEASE, Discrepancy.LEASE_WITHOUT_PROCESS}
)
"""Differences that an agent's spec files can show."""
ID_CHARS_MAX: Final = 80


class InspectionResult(Struct, frozen=True, kw_only=True):
    """Differences of all agents that answered."""

    differences: tuple[Difference, ...]
    asked: tuple[AgentId, ...]


Findings = tuple[Inventory, list[Difference]]
"""An agent's inventory and its differences from the state."""


class Inspector(Protocol):
    """Queries agents."""

    async def inspect_all(self) -> InspectionResult:
        """Inspect all reachable agents."""

    async def inspect(self, agent_id: AgentId) -> Findings | None:
        """Inspect one agent; None when it does not answer."""

    async def accounts(self, account: str) -> Mapping[AgentId, bool | None]:
        """Whether the hosts of reachable agents have a Unix account; None = the agent did not say."""


class Examination(OperatorCommands):
    """Use cases of inspection. Only the leader can query agents."""

    def __init__(
        self,
        *,
        state: State,
        journal: Journal,
        clock: Clock,
        inspector: Callable[[], Inspector | None] = lambda: None,
        leader: Callable[[], str | None] = lambda: None,
    ) -> None:
        """
        Args:
            inspector: returns the inspector of the present term; None while this server does not lead.
            leader: returns the URL of the leader; None when unknown.
        """
        super().__init__(state=state, journal=journal, clock=clock)
        self._inspector = inspector
        self._leader = leader

    async def examine(self, caller: Caller) -> ExaminationView:
        """Inspect every reachable agent.

        Raises:
            Forbidden: the caller is not an operator.
            Unavailable: this server does not lead.
        """
        seen = await self._inspector_for(caller).inspect_all()
        there = {agent.id for agent in self._state.agents.values() if agent.state is not AgentState.LEFT}
        silent = sorted(there - set(seen.asked))
        return ExaminationView(
            differences=self._views(seen.differences),
            asked=seen.asked,
            silent=tuple(silent),
        )

    async def rescan(self, caller: Caller, agent_id: str | None) -> RescanView:
        """Make an agent, or all of them, read the spec files of their kernels again; recorded in the event log.

        Raises:
            Forbidden: the caller is not an operator.
            NotFound: there is no such agent.
            Unavailable: the agent does not answer, or this server does not lead.
        """
        inspector = self._inspector_for(caller)
        if agent_id is None:
            there = [agent.id for agent in self._state.agents.values() if agent.state is not AgentState.LEFT]
            results = [(id, await inspector.inspect(id)) for id in sorted(there, key=natural_key)]
            silent = tuple(id for id, found in results if found is None)
            views = [await self._recorded(caller, found) for _, found in results if found is not None]
            return _joined(views, silent=silent)
        name = agent_id[:ID_CHARS_MAX]
        if AgentId(agent_id) not in self._state.agents:
            raise NotFound(f"there is no agent {name}", kind="agent", id=name)
        found = await inspector.inspect(AgentId(agent_id))
        if found is None:
            raise Unavailable(f"agent {name} does not answer; its files cannot be read now")
        return await self._recorded(caller, found)

    async def _recorded(self, caller: Caller, found: Findings) -> RescanView:
        view = self._rescan_view(*found)
        await self._act(caller, partial(_record, view=view))
        return view

    def _rescan_view(self, inventory: Inventory, differing: Iterable[Difference]) -> RescanView:
        specs = [spec for spec in inventory.specs if not spec.ended]
        readable = [spec.spec for spec in specs if spec.spec is not None]
        return RescanView(
            agent_id=inventory.agent.id,
            agents=(inventory.agent.id,),
            silent=(),
            scanned=len(specs),
            unreadable=tuple(spec.kernel_id for spec in specs if spec.spec is None),
            differences=self._views(difference for difference in differing if difference.kind in OF_SPECS),
            gpu_alloc_map=gpu_alloc_json(gpu_alloc_map(readable, inventory.agent.devices)),
        )

    def _inspector_for(self, caller: Caller) -> Inspector:
        check_role(caller, Role.OPERATOR)
        inspector = self._inspector()
        if inspector is None:
            leader = self._leader()
            if leader is None:
                raise Unavailable("no server is leading right now; try again in a few seconds")
            raise Unavailable(f"this server follows; send the request to the leader, {leader}")
        return inspector

    def _views(self, differences: Iterable[Difference]) -> tuple[DifferenceView, ...]:
        known = self._state.findings.values()
        findings = {(finding.kind, finding.agent_id, finding.subject): finding for finding in known}
        return tuple(_view(difference, findings.get(difference.key)) for difference in differences)


def _joined(views: Sequence[RescanView], *, silent: tuple[str, ...]) -> RescanView:
    """The results of several agents as one. Agents of one node may hold parts of one device, which are added."""
    held: dict[DeviceId, int] = {}
    for view in views:
        for device_id, text in json.loads(view.gpu_alloc_map).items():
            held[device_id] = held.get(device_id, 0) + int(Decimal(text) * MILLI)
    return RescanView(
        agent_id=None,
        agents=tuple(id for view in views for id in view.agents),
        silent=silent,
        scanned=sum(view.scanned for view in views),
        unreadable=tuple(id for view in views for id in view.unreadable),
        differences=tuple(one for view in views for one in view.differences),
        gpu_alloc_map=gpu_alloc_json(held),
    )


def _record(draft: UnitOfWork, *, view: RescanView) -> None:
    """Record the result in the event log."""
    facts = {
        "scanned": str(view.scanned),
        "unreadable": " ".join(view.unreadable),
        "differences": str(len(view.differences)),
        "gpu_alloc_map": view.gpu_alloc_map,
    }
    draft.put(Action(id=f"gpu_maps/{view.agent_id}", facts=facts), "gpu_maps_rescanned")


def _view(difference: Difference, finding: Finding | None) -> DifferenceView:
    return DifferenceView(
        kind=difference.kind,
        agent_id=difference.agent_id,
        subject=difference.subject,
        evidence=difference.evidence,
        since=None if finding is None else moment(finding.found_us),
        repair=REPAIRS.get(difference.kind),
    )
