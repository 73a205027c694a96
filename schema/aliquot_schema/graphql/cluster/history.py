"""GraphQL API of history: time series of devices, the queue and usage."""

from datetime import datetime
from typing import Annotated, Final

import strawberry
from strawberry.types import Info

from aliquot_schema.errors import Unavailable
from aliquot_schema.graphql.context import Context, HistoryPort
from aliquot_schema.graphql.enums import UsageBy
from aliquot_schema.graphql.fields import argument, root_field
from aliquot_schema.views.statistics import HistoryView, UsageHistoryView

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


@strawberry.type
class HistoryQueries:
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
        return await _historian(info).device_history(
            info.context.caller, agent_id, device_ids=wanted, since=since, until=until, points=points
        )

    @root_field(History, "Length of the queue and number of held GPUs over time.")
    async def queue_history(
        self, info: Info[Context, None], since: Since = None, until: Until = None, points: Count = POINTS
    ) -> HistoryView:
        return await _historian(info).queue_history(info.context.caller, since=since, until=until, points=points)

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
        return await _historian(info).session_history(info.context.caller, id, points=points)

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
        return await _historian(info).usage_history(info.context.caller, by=by, since=since, until=until, step=step)


def _historian(info: Info[Context, None]) -> HistoryPort:
    historian = info.context.historian
    if historian is None:
        raise Unavailable("this server does not store history")
    return historian
