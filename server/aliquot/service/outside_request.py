"""What work that is run outside asks for, as a session, and whether it is what a session holds already."""

from dataclasses import replace
from fractions import Fraction
from typing import Final

from aliquot.core.admission import gb_of, slots_of
from aliquot.core.field_checks import check_limit, label, milliseconds
from aliquot.service.gpu_slots import gpu_slots
from aliquot.service.state import State
from aliquot_schema.errors import IdempotencyMismatch, InvalidRequest
from aliquot_schema.outside_views import LEASE_S, NewOutside
from aliquot_schema.requests import NewSession
from aliquot_schema.sessions import Session
from aliquot_schema.slots import ResourceSlot, Unlimited, scale_of

LEASE_S_MAX: Final = 7 * 86_400
JOB_ID_CHARS_MAX: Final = 128
COMMAND: Final = "gpu-allocate"


def lease_ms_of(asked: NewOutside) -> int:
    """For how long it is held unless it is called for again.

    Raises:
        InvalidRequest: it is too long, or no time.
    """
    lease_ms = milliseconds(LEASE_S if asked.lease is None else asked.lease, field="lease", most_s=LEASE_S_MAX)
    assert lease_ms is not None
    return lease_ms


def request_of(state: State, asked: NewOutside) -> NewSession:
    """The session that would hold it.

    Raises:
        InvalidRequest: or one of its kinds.
    """
    job_id = label(asked.job_id, field="job_id")
    if not job_id:
        raise InvalidRequest("job_id: it is empty; say what the job is called", field="job_id")
    check_limit(len(job_id), field="job_id", most=JOB_ID_CHARS_MAX, unit="characters")
    return NewSession(
        argv=(COMMAND, job_id),
        shell=None,
        slots=gpu_slots(state, asked.gpu_count),
        gpu_memory_gb=asked.memory_gb,
        name=job_id,
        run_id=job_id,
        project=asked.project,
        pool=asked.pool,
        outside=lease_ms_of(asked) / 1000,
    )


def spread(request: NewSession) -> NewSession | None:
    """The same number of whole GPUs, one by one, which may be on several agents; None where it is none or one."""
    ((slot, amount),) = request.slots
    if not slot.endswith(".device") or int(amount) == 1:
        return None
    return replace(request, slots=((slot, "1"),), cluster_size=int(amount))


def check_same(held: Session, request: NewSession) -> None:
    """Refuse a job that asks for something else than it holds. What counts is how much: the cluster may have got other
    kinds of devices since, or agents that are larger or smaller.

    Raises:
        IdempotencyMismatch, InvalidRequest.
    """
    memory = None if request.gpu_memory_gb is None else gb_of(request.gpu_memory_gb)
    held_gpus = held.spec.cluster_size * _gpus(held.spec.slots)
    if (_gpus(slots_of(request.slots)), memory) != (held_gpus, held.spec.gpu_memory_bytes):
        raise IdempotencyMismatch(
            f"job_id: {held.run_id} holds something else than it asks for now; release it first",
            key=held.run_id or "",
            session_id=held.id,
        )


def _gpus(slots: ResourceSlot) -> Fraction:
    """How many, shares of one included; see `gpu_slots` for what stands for none."""
    wanted = ((slot, amount) for slot, amount in slots.items() if slot != "cpu" and not isinstance(amount, Unlimited))
    return sum((Fraction(amount, scale_of(slot)) for slot, amount in wanted), start=Fraction())
