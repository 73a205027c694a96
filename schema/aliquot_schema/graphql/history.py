"""History: what devices and the queue measured, and who held how much, over time."""

from datetime import datetime
from typing import Annotated, Final

import strawberry
from strawberry.types import Info

from aliquot_schema.errors import Unavailable
from aliquot_schema.graphql.context import Context
from aliquot_schema.graphql.descriptions import argument
from aliquot_schema.graphql.enums import UsageBy
from aliquot_schema.graphql.history_port import Historian
from aliquot_schema.graphql.roots import root_field
from aliquot_schema.history_views import HistoryView, UsageHistoryView

POINTS: Final = 300


Since = Annotated[datetime | None, argument("From when on; what is left out is chosen.")]
Until = Annotated[datetime | None, argument("Up to when; without it, now.")]
Count = Annotated[int, argument("How many points each series has at most, 2 to 2000; their step is chosen by it.")]


@strawberry.type(description="One number over time.")
class HistorySeries:
    metric: str = strawberry.field(
        description="Of a device: utilization, memory_used, temperature, power, held. Of the queue: pending, running, "
        "submitted, started, ended, wait_mean, gpus_total, gpus_held, gpus_held_idle."
    )
    unit: str = strawberry.field(description="percent, bytes, celsius, watts, milli, gpus, tasks, sessions or seconds.")
    agent_id: strawberry.ID | None = strawberry.field(description="The agent; null where it is the whole cluster's.")
    device_id: strawberry.ID | None = strawberry.field(description="The device; null where it is the whole cluster's.")
    values: list[float | None] = strawberry.field(
        description="The mean of each step; of submitted, started and ended how many there were. Null where nothing "
        "was measured."
    )
    maximum: list[float | None] | None = strawberry.field(
        description="The highest measurement of each step; null where `values` are sums."
    )


@strawberry.type(description="What was measured, in equal steps.")
class History:
    started_at: datetime = strawberry.field(description="When the first step begins: at a multiple of the step.")
    step: float = strawberry.field(description="Seconds.")
    points: int = strawberry.field(description="How many steps there are.")
    series: list[HistorySeries] = strawberry.field(description="By agent, device and metric.")
    warning: str | None = strawberry.field(description="Why something may be missing.")


@strawberry.type(description="What a user or a project held over time.")
class UsageSeries:
    name: str | None = strawberry.field(description="The user or project; null for all others together.")
    gpu_hours: list[float] = strawberry.field(description="Of whole GPUs, within each step; parts count as parts.")
    utilization: list[float | None] = strawberry.field(
        description="Percent: the mean of the GPUs while they were held, each by the part of it that was; null where "
        "nothing was held, or measured."
    )


@strawberry.type(description="Who held how much, in equal steps.")
class UsageHistory:
    started_at: datetime = strawberry.field(description="When the first step begins: at a multiple of the step, UTC.")
    step: float = strawberry.field(description="Seconds.")
    points: int = strawberry.field(description="How many steps there are.")
    series: list[UsageSeries] = strawberry.field(description="Who held most comes first; at most 100, and the others.")
    warning: str | None = strawberry.field(description="Why something may be missing.")


@strawberry.type
class HistoryQueries:
    @root_field(History, "What an agent's accelerators measured over time.")
    async def device_history(
        self,
        info: Info[Context, None],
        agent_id: Annotated[str, argument("The agent.")],
        device_ids: Annotated[list[str] | None, argument("These devices alone.")] = None,
        since: Since = None,
        until: Until = None,
        points: Count = POINTS,
    ) -> HistoryView:
        wanted = None if device_ids is None else tuple(device_ids)
        return await _historian(info).device_history(
            info.context.caller, agent_id, device_ids=wanted, since=since, until=until, points=points
        )

    @root_field(History, "How long the queue was, and how many GPUs were held, over time.")
    async def queue_history(
        self, info: Info[Context, None], since: Since = None, until: Until = None, points: Count = POINTS
    ) -> HistoryView:
        return await _historian(info).queue_history(info.context.caller, since=since, until=until, points=points)

    @root_field(
        History,
        "What the devices of a session measured while it held them. For its owner, members of its project and "
        "operators.",
    )
    async def session_history(
        self,
        info: Info[Context, None],
        id: Annotated[strawberry.ID, argument("The session.")],
        points: Count = POINTS,
    ) -> HistoryView:
        return await _historian(info).session_history(info.context.caller, id, points=points)

    @root_field(UsageHistory, "Who held how many GPUs over time, by the record of what was granted.")
    async def usage_history(
        self,
        info: Info[Context, None],
        by: Annotated[UsageBy, argument("Whose usage is added up.")] = UsageBy.USER,
        since: Since = None,
        until: Until = None,
        step: Annotated[float | None, argument("Seconds, whole minutes; without it, chosen by the time.")] = None,
    ) -> UsageHistoryView:
        return await _historian(info).usage_history(info.context.caller, by=by, since=since, until=until, step=step)


def _historian(info: Info[Context, None]) -> Historian:
    historian = info.context.historian
    if historian is None:
        raise Unavailable("this server keeps no history")
    return historian
