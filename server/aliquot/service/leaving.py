"""Leaving: what becomes of a session that was asked to make room, once its kernels have exited."""

from collections.abc import Sequence

from aliquot.core.charges import rate_milli
from aliquot.core.leaving import ended_by_itself, made_room
from aliquot.service.draft import Draft
from aliquot_schema.ids import LeaseId
from aliquot_schema.leases import Kernel
from aliquot_schema.sessions import Session


def after_leaving(draft: Draft, session: Session, kernels: Sequence[Kernel]) -> Session | None:
    """A session that was asked to make room and whose kernels have all exited, as it waits again; None when it came
    to an end of its own, and that is what counts."""
    if ended_by_itself(session, kernels):
        return None
    return made_room(session, lost=_used(draft, kernels))


def _used(draft: Draft, kernels: Sequence[Kernel]) -> int:
    """What an attempt used, milli of a device x milliseconds."""
    charges = draft.policy().charges
    used = 0
    for kernel in kernels:
        lease, agent = draft.lease(LeaseId(kernel.id)), draft.agent(kernel.agent_id)
        if lease is not None and agent is not None and kernel.ended_us is not None:
            devices = {device.id: device for device in agent.devices}
            held_ms = (kernel.ended_us - kernel.granted_us) // 1000
            used += rate_milli(lease.spec, devices=devices, charges=charges) * held_ms
    return used
