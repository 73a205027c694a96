"""Stopping: what a pass decided before somebody stopped the orchestrator is not committed after it."""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection, select

from aliquot.service.ports import Batch, StaleVersion, Write
from aliquot.store.tables import ORCHESTRATION
from aliquot_schema.leases import Lease
from aliquot_schema.orchestration import OrchestratorState

PREEMPTING: Final = "session.preempting"
_STOPPED = select(ORCHESTRATION.c.changed_us).where(ORCHESTRATION.c.state == OrchestratorState.STOPPED.value)


def check_not_stopped(connection: Connection, batches: Sequence[Batch]) -> None:
    """See that nothing new is granted, and nobody preempted, while the orchestrator is stopped.

    To be called with the counter locked: every commit before this one is seen then, whichever server made it.

    Raises:
        StaleVersion: a batch does so; its pass has to look again.
    """
    passes = (batch for batch in batches if batch.pass_number is not None)
    is_new = any(_is_new(write) for batch in passes for write in batch.writes)
    if is_new and connection.execute(_STOPPED).first() is not None:
        raise StaleVersion("the orchestrator was stopped meanwhile")


def _is_new(write: Write) -> bool:
    return write.kind == PREEMPTING or (isinstance(write.record, Lease) and write.record.version == 1)
