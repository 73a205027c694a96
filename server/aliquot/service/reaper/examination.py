"""Examination: the differences of this moment, told to an operator; nothing is repaired."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from aliquot.core.allocation.alloc_map import gpu_alloc_json, gpu_alloc_map
from aliquot.service.draft import Draft
from aliquot.service.office import Office
from aliquot.service.permissions import check_role
from aliquot.service.projection_terms import moment
from aliquot.service.reaper.differences import Difference
from aliquot.service.reaper.repairs import REPAIRS
from aliquot_schema.actions import Action
from aliquot_schema.doctor_views import DifferenceView, ExaminationView, RescanView
from aliquot_schema.errors import NotFound, Unavailable
from aliquot_schema.findings import Discrepancy, Finding
from aliquot_schema.ids import AgentId
from aliquot_schema.launching import Inventory
from aliquot_schema.requests import Caller, Role
from aliquot_schema.states import AgentState

OF_SPECS: Final = frozenset(
    {Discrepancy.SPEC_DIFFERS, Discrepancy.SPEC_WITHOUT_LEASE, Discrepancy.LEASE_WITHOUT_PROCESS}
)
"""What the files of an agent can tell."""
ID_CHARS_MAX: Final = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What was seen of all agents at once."""

    differences: tuple[Difference, ...]
    asked: tuple[AgentId, ...]


Finds = tuple[Inventory, list[Difference]]
"""What an agent has, and in what that differs from what it should have."""


class Looker(Protocol):
    """Can ask agents."""

    async def look_around(self) -> Look:
        """All of them that can be asked."""

    async def look_at(self, agent_id: AgentId) -> Finds | None:
        """One of them; None when it does not answer."""


class Examination(Office):
    """Of the server that leads, which alone can ask agents."""

    looker: Looker | None = None
    """None = this server cannot ask them."""

    async def examine(self, caller: Caller) -> ExaminationView:
        """Ask every agent that can be asked.

        Raises:
            Forbidden, Unavailable: this server does not lead.
        """
        seen = await self._looker_for(caller).look_around()
        there = {agent.id for agent in self._state.agents.values() if agent.state is not AgentState.LEFT}
        silent = sorted(there - set(seen.asked))
        return ExaminationView(
            differences=self._views(seen.differences),
            asked=seen.asked,
            silent=tuple(silent),
        )

    async def rescan(self, caller: Caller, agent_id: str) -> RescanView:
        """Have an agent read the files again that say what its kernels were given; what they say is in the log, too.

        Raises:
            Forbidden, NotFound.
            Unavailable: the agent does not answer, or this server does not lead.
        """
        looker, shown = self._looker_for(caller), agent_id[:ID_CHARS_MAX]
        if AgentId(agent_id) not in self._state.agents:
            raise NotFound(f"there is no agent {shown}", kind="agent", id=shown)
        found = await looker.look_at(AgentId(agent_id))
        if found is None:
            raise Unavailable(f"agent {shown} does not answer; its files cannot be read now")
        inventory, differing = found
        view = self._rescan_view(inventory, differing)
        await self._act(caller, partial(_tell, view=view))
        return view

    def _rescan_view(self, inventory: Inventory, differing: Iterable[Difference]) -> RescanView:
        specs = [spec for spec in inventory.specs if not spec.ended]
        readable = [spec.spec for spec in specs if spec.spec is not None]
        return RescanView(
            agent_id=inventory.agent.id,
            scanned=len(specs),
            unreadable=tuple(spec.kernel_id for spec in specs if spec.spec is None),
            differences=self._views(difference for difference in differing if difference.kind in OF_SPECS),
            gpu_alloc_map=gpu_alloc_json(gpu_alloc_map(readable, inventory.agent.devices)),
        )

    def _looker_for(self, caller: Caller) -> Looker:
        check_role(caller, Role.OPERATOR)
        if self.looker is None:
            raise Unavailable("this server follows; ask the one that leads")
        return self.looker

    def _views(self, differences: Iterable[Difference]) -> tuple[DifferenceView, ...]:
        found = self._state.findings.values()
        standing = {(finding.kind, finding.agent_id, finding.subject): finding for finding in found}
        return tuple(_view(difference, standing.get(difference.key)) for difference in differences)


def _tell(draft: Draft, *, view: RescanView) -> None:
    """What was read, in the log."""
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
