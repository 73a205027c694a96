"""The queue: what waits, and what can be done to it."""

from typing import Final

from aliquot.api.rest.jobs import Job, Queue, job_of
from aliquot.api.rest.operations import Ask, Operation
from aliquot.api.rest.requests import NewPriority, Piece, SubmitJob
from aliquot_schema.decimals import decimal_text
from aliquot_schema.requests import NewSession, PageRequest
from aliquot_schema.statistics_views import QueueStatisticsView


async def list_queue(ask: Ask) -> Queue:
    """A piece of it."""
    context, piece = ask.context, ask.query
    page = context.reader.queue(context.caller, PageRequest(first=piece.first, after=piece.after))
    return Queue(
        total_queued=page.total_count,
        jobs=tuple(job_of(entry.session) for entry in page.items),
        next=page.cursors[-1] if page.has_next else None,
        revision=page.revision,
    )


async def submit(ask: Ask) -> Job:
    """See `Writer.create_session`."""
    body: SubmitJob = ask.body
    is_text = isinstance(body.command, str)
    request = NewSession(
        argv=None if is_text else tuple(body.command),
        shell=body.command if isinstance(body.command, str) else None,
        slots=ask.outside.gpu_slots(decimal_text(body.gpu_count)),
        gpu_memory_gb=None if body.memory_gb is None else decimal_text(body.memory_gb),
        priority=str(body.priority),
        estimated_duration=body.estimated_duration,
        time_limit=body.time_limit,
        max_retries=body.max_retries,
        name=body.name,
        run_id=body.run_id,
        project=body.project,
        pool=body.pool,
        idempotency_key=ask.idempotency_key,
    )
    return job_of((await ask.context.writer.create_session(ask.context.caller, request)).session)


async def cancel(ask: Ask) -> Job:
    """See `Writer.cancel_session`."""
    context = ask.context
    return job_of((await context.writer.cancel_session(context.caller, ask.path["job_id"], None)).session)


async def update_priority(ask: Ask) -> Job:
    """See `Writer.update_session_priority`."""
    context, body = ask.context, ask.body
    changed = await context.writer.update_session_priority(
        context.caller, ask.path["job_id"], str(body.priority), body.expected_version
    )
    return job_of(changed.session)


async def statistics(ask: Ask) -> QueueStatisticsView:
    """See `Reader.queue_statistics`."""
    return ask.context.reader.queue_statistics(ask.context.caller)


OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/queue",
        name="queue",
        summary="Those that wait, in the order in which the allocator looks at them.",
        handler=list_queue,
        answer=Queue,
        query=Piece,
        cost_each=40,
    ),
    Operation(
        method="GET",
        path="/queue/statistics",
        name="queue_statistics",
        summary="How long the queue is, how long it lets wait, and how much it gets done.",
        handler=statistics,
        answer=QueueStatisticsView,
    ),
    Operation(
        method="POST",
        path="/queue/submit",
        name="queue_submit",
        summary="Submit a job. With a header `Idempotency-Key`, sending it again makes no second one.",
        handler=submit,
        answer=Job,
        body=SubmitJob,
        problems=(409,),
        takes_key=True,
    ),
    Operation(
        method="DELETE",
        path="/queue/{job_id}",
        name="queue_cancel",
        summary="Cancel a job that has not ended; one that runs is stopped.",
        handler=cancel,
        answer=Job,
        problems=(404, 409),
    ),
    Operation(
        method="PATCH",
        path="/queue/{job_id}/priority",
        name="queue_priority",
        summary="Give a job another priority.",
        handler=update_priority,
        answer=Job,
        body=NewPriority,
        problems=(404, 409),
    ),
)
