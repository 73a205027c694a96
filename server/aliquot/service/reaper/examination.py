"""Examination: the differences of this moment, told to an operator; nothing is changed."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aliquot.service.office import Office
from aliquot.service.projection_terms import moment
from aliquot.service.reaper.differences import Difference
from aliquot.service.reaper.repairs import REPAIRS
from aliquot_schema.doctor_views import DifferenceView, ExaminationView
from aliquot_schema.errors import Forbidden, Unavailable
from aliquot_schema.findings import Finding
from aliquot_schema.ids import AgentId
from aliquot_schema.requests import Caller, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What was seen of all agents at once."""

    differences: tuple[Difference, ...]
    asked: tuple[AgentId, ...]


class Examination(Office):
    """Of the server that leads, which alone can ask agents."""

    look: Callable[[], Awaitable[Look]] | None = None
    """None = this server cannot ask them."""

    async def examine(self, caller: Caller) -> ExaminationView:
        """Ask every agent that can be asked.

        Raises:
            Forbidden, Unavailable: this server does not lead.
        """
        if caller.role < Role.OPERATOR:
            raise Forbidden("this is for operators; ask one of them")
        if self.look is None:
            raise Unavailable("this server follows; ask the one that leads")
        seen = await self.look()
        standing = {
            (finding.kind, finding.agent_id, finding.subject): finding for finding in self._state.findings.values()
        }
        silent = sorted(self._state.agents.keys() - set(seen.asked))
        return ExaminationView(
            differences=tuple(_view(difference, standing.get(difference.key)) for difference in seen.differences),
            asked=seen.asked,
            silent=tuple(silent),
        )


def _view(difference: Difference, finding: Finding | None) -> DifferenceView:
    return DifferenceView(
        kind=difference.kind,
        agent_id=difference.agent_id,
        subject=difference.subject,
        evidence=difference.evidence,
        since=None if finding is None else moment(finding.found_us),
        repair=REPAIRS.get(difference.kind),
    )
