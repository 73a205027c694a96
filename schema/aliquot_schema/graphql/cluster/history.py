"""GraphQL API of history: time series of devices, the queue and usage."""

from datetime import datetime
from typing import Annotated, Final

import strawberry
from strawberry.types import Info

from aliquot_schema.errors import Unavailable
from aliquot_schema.graphql.cluster.billing import Cost
from aliquot_schema.graphql.context import Context, HistoryPort
from aliquot_schema.graphql.enums import RightSizeKind, SessionState, UsageBy
from aliquot_schema.graphql.fields import argument, root_field
from aliquot_schema.graphql.scalars import BigInt
from aliquot_schema.views.statistics import HistoryView, SessionStatsView, UsageHistoryView

POINTS: Final = 300


Since = Annotated[datetime | None, argument("Start of the period; null = chosen by the server.")]
Until = Annotated[datetime | None, argument("End of the period; null = now.")]
Count = Annotated[int, argument("Maximum number of points per series, 2 to 2000; determines the step.")]


@strawberry.type(description="Time series of one metric.")
class HistorySeries:
    metric: str = strawberry.field(
        description="Of a device: utilization, memory_used, temperature, power, held. Of the queue: pending, running, "
        "submitted, started, ended, wait_mean, gpus_total, gpus_held, gpus_held_idle."
    )
    unit: str = strawberry.field(description="percent, bytes, celsius, watts, milli, gpus, tasks, sessions or seconds.")
    agent_id: strawberry.ID | None = strawberry.field(description="The agent; null = the whole cluster.")
    device_id: strawberry.ID | None = strawberry.field(description="The device; null = the whole cluster.")
    values: list[float | None] = strawberry.field(
        description="Mean per step; for submitted, started and ended the number per step. Null = nothing was measured."
    )
    maximum: list[float | None] | None = strawberry.field(description="Maximum per step; null if `values` are counts.")


@strawberry.type(description="Time series with equal steps.")
class History:
    started_at: datetime = strawberry.field(description="Start of the first step, a multiple of the step.")
    step: float = strawberry.field(description="Length of a step in seconds.")
    points: int = strawberry.field(description="Number of steps.")
    series: list[HistorySeries] = strawberry.field(description="Series, by agent, device and metric.")
    warning: str | None = strawberry.field(description="Why data may be missing; null = complete as far as known.")


@strawberry.type(description="Usage of one user or project over time.")
class UsageSeries:
    name: str | None = strawberry.field(description="The user or project; null = all others together.")
    gpu_hours: list[float] = strawberry.field(description="GPU-hours per step; shares count as fractions.")
    utilization: list[float | None] = strawberry.field(
        description="Percent: mean over held GPUs, weighted by the share held. Null = nothing was held or measured."
    )


@strawberry.type(description="Usage by user or project, with equal steps.")
class UsageHistory:
    started_at: datetime = strawberry.field(description="Start of the first step, a multiple of the step in UTC.")
    step: float = strawberry.field(description="Length of a step in seconds.")
    points: int = strawberry.field(description="Number of steps.")
    series: list[UsageSeries] = strawberry.field(
        description="Series, largest usage first: at most 100, and one of all others."
    )
    warning: str | None = strawberry.field(description="Why data may be missing; null = complete as far as known.")


@strawberry.type(
    description="Use of one GPU while a session held it. What was measured includes other holders of a shared GPU."
)
class GpuStats:
    agent_id: strawberry.ID = strawberry.field(description="The agent.")
    device_id: strawberry.ID = strawberry.field(description="The GPU.")
    share: float = strawberry.field(description="Held share, 0 to 1.")
    utilization: float | None = strawberry.field(description="Mean in percent; null if not measured.")
    utilization_max: float | None = strawberry.field(description="Maximum in percent.")
    memory_gb: float | None = strawberry.field(description="Memory of the held share, in 10^9 bytes.")
    memory_peak_gb: float | None = strawberry.field(description="Most memory in use, in 10^9 bytes.")


@strawberry.type(description="Advice on one part of a request, from past runs of the same command.")
class RightSizeFigure:
    kind: RightSizeKind = strawberry.field(description="The part of the request.")
    advised: str = strawberry.field(description="As it is written in a request, like `2`, `0.4`, `24 GiB`, `2 h`.")
    largest: str = strawberry.field(description="Largest value of the past runs; the advice has a margin above it.")
    runs: int = strawberry.field(description="Past runs that it is made from.")
    enough: int = strawberry.field(
        description="Later runs for which the advice made from the runs before them was enough."
    )
    tested: int = strawberry.field(description="Later runs that were tested.")
    message: str = strawberry.field(description="One sentence.")


@strawberry.type(description="What the next session of a command needs, from past runs of its owner's.")
class RightSize:
    command: str = strawberry.field(description="Program and size.")
    runs: int = strawberry.field(description="Past runs of it that were read.")
    figures: list[RightSizeFigure] = strawberry.field(
        description="What a request could ask for instead; empty if what it asks for matches."
    )
    message: str = strawberry.field(description="One sentence.")


@strawberry.type(description="CPU and host memory that the processes of one rank used, in the newest attempt.")
class HostStats:
    rank: int = strawberry.field(description="The rank.")
    agent_id: strawberry.ID = strawberry.field(description="The agent.")
    cpu: float | None = strawberry.field(description="CPUs in use, over the last seconds; null once it has ended.")
    cpu_mean: float | None = strawberry.field(description="CPUs in use, mean over its run time.")
    cpu_max: float | None = strawberry.field(description="CPUs in use, at most.")
    cpu_held: float | None = strawberry.field(description="CPUs of its share; null if it requested none.")
    cpu_seconds: float = strawberry.field(description="CPU time since its start, in seconds.")
    memory: BigInt | None = strawberry.field(description="Memory in use, in bytes; null once it has ended.")
    memory_peak: BigInt | None = strawberry.field(description="Most memory in use at any measurement, in bytes.")
    memory_held: BigInt | None = strawberry.field(description="Memory of its share, in bytes; null if none.")


@strawberry.type(description="What a session used of what it held. Durations are seconds.")
class SessionStats:
    session_id: strawberry.ID = strawberry.field(description="The session.")
    state: SessionState = strawberry.field(description="Its state.")
    wait: float = strawberry.field(description="From the submission to the start, or until now.")
    ran: float | None = strawberry.field(description="Run time of the newest attempt; null if it has not run.")
    time_limit: float | None = strawberry.field(description="Its wall-time limit.")
    gpu_hours: float = strawberry.field(description="GPU-hours of all attempts; shares count as fractions.")
    lost_gpu_hours: float = strawberry.field(description="GPU-hours of work that requeues lost.")
    credited_gpu_hours: float = strawberry.field(description="Part of them that its owner is not charged for.")
    held: float = strawberry.field(
        description="Time in which it held GPUs, all attempts together; waits between them do not count."
    )
    productive: float = strawberry.field(description="Run time whose work is not lost.")
    ettr: float | None = strawberry.field(
        description="Effective training time ratio: `productive` / `held`, 0 to 1; null if it has held no GPU."
    )
    gpus: list[GpuStats] = strawberry.field(description="Its GPUs.")
    hosts: list[HostStats] = strawberry.field(description="CPU and host memory of each measured rank.")
    advice: str = strawberry.field(description="One sentence for the next session like it.")
    warning: str | None = strawberry.field(description="Why measurements may be missing; null = none are.")
    right_size: RightSize | None = strawberry.field(
        description="What the last runs of its command needed; null if fewer than 3 are known. For its owner and "
        "operators."
    )
    cost: Cost | None = strawberry.field(
        description="What it has cost so far, by the present prices; null without prices."
    )


@strawberry.type
class HistoryQueries:
    @root_field(SessionStats, "What a session used of what it held, with one line of advice.")
    async def session_stats(
        self, info: Info[Context, None], id: Annotated[strawberry.ID, argument("The session.")]
    ) -> SessionStatsView:
        return await _history_port(info).session_stats(info.context.caller, id)

    @root_field(History, "Measurements of an agent's accelerators over time.")
    async def device_history(
        self,
        info: Info[Context, None],
        agent_id: Annotated[str, argument("The agent.")],
        device_ids: Annotated[list[str] | None, argument("Only these devices; null = all.")] = None,
        since: Since = None,
        until: Until = None,
        points: Count = POINTS,
    ) -> HistoryView:
        wanted = None if device_ids is None else tuple(device_ids)
        return await _history_port(info).device_history(
            info.context.caller, agent_id, device_ids=wanted, since=since, until=until, points=points
        )

    @root_field(History, "Length of the queue and number of held GPUs over time.")
    async def queue_history(
        self, info: Info[Context, None], since: Since = None, until: Until = None, points: Count = POINTS
    ) -> HistoryView:
        return await _history_port(info).queue_history(info.context.caller, since=since, until=until, points=points)

    @root_field(
        History,
        "Measurements of a session's devices while it held them. For its owner, members of its project and operators.",
    )
    async def session_history(
        self,
        info: Info[Context, None],
        id: Annotated[strawberry.ID, argument("The session.")],
        points: Count = POINTS,
    ) -> HistoryView:
        return await _history_port(info).session_history(info.context.caller, id, points=points)

    @root_field(UsageHistory, "GPU usage by user or project over time, from the audit log.")
    async def usage_history(
        self,
        info: Info[Context, None],
        by: Annotated[UsageBy, argument("Grouping.")] = UsageBy.USER,
        since: Since = None,
        until: Until = None,
        step: Annotated[
            float | None, argument("Step in seconds, a multiple of 60; null = chosen by the length of the period.")
        ] = None,
    ) -> UsageHistoryView:
        return await _history_port(info).usage_history(info.context.caller, by=by, since=since, until=until, step=step)


def _history_port(info: Info[Context, None]) -> HistoryPort:
    historian = info.context.services.history
    if historian is None:
        raise Unavailable("this server does not store history")
    return historian
