"""Launch orders: what an agent is told to run for one rank, from the session and its grant."""

from typing import Final

from aliquot.service.draft import Draft
from aliquot.service.rendezvous import rendezvous_environment
from aliquot_schema.ids import LeaseId
from aliquot_schema.launching import LaunchOrder
from aliquot_schema.leases import Kernel
from aliquot_schema.secrets import SecretGrant
from aliquot_schema.sessions import Session

GRACE_MS: Final = 10_000
"""Between the polite signal and the last one."""


def order_for(draft: Draft, session: Session, kernel: Kernel, *, epoch: int) -> LaunchOrder:
    """The order for one rank. The same kernel always gets the same order, but for the epoch, and for
    the Unix account if an admin has changed it: an agent that has the first one keeps to it."""
    lease = draft.lease(LeaseId(kernel.id))
    assert lease is not None, f"{kernel.id} has no lease"
    gang = draft.kernels_in(session)
    return LaunchOrder(
        kernel_id=kernel.id,
        epoch=epoch,
        argv=session.spec.argv,
        environment={
            **session.spec.environment,
            **gang_environment(kernel, gang),
            **rendezvous_environment(draft, gang),
            **array_environment(session),
        },
        working_directory=session.spec.working_directory,
        spec=lease.spec,
        user=draft.unix_name(session.owner),
        time_limit_ms=session.spec.time_limit_ms,
        grace_ms=GRACE_MS,
        limits=session.spec.limits,
        sandbox=session.spec.sandbox,
        secrets=tuple(SecretGrant(owner=session.owner, use=use) for use in session.spec.secrets),
    )


def gang_environment(kernel: Kernel, gang: list[Kernel]) -> dict[str, str]:
    """RANK and its relatives, as distributed programs read them; agents count as nodes, by their lowest rank."""
    agents = list(dict.fromkeys(member.agent_id for member in gang))
    local = [member.rank for member in gang if member.agent_id == kernel.agent_id]
    return {
        "RANK": str(kernel.rank),
        "WORLD_SIZE": str(len(gang)),
        "LOCAL_RANK": str(local.index(kernel.rank)),
        "LOCAL_WORLD_SIZE": str(len(local)),
        "NODE_RANK": str(agents.index(kernel.agent_id)),
    }


def array_environment(session: Session) -> dict[str, str]:
    """Which task of which job array it is; nothing for other sessions."""
    if session.array_id is None or session.array_index is None:
        return {}
    return {"ALIQUOT_ARRAY_ID": session.array_id, "ALIQUOT_ARRAY_INDEX": str(session.array_index)}
