"""How long the queue is, and how long it lets wait."""

import strawberry
from strawberry.types import Info

from aliquot_schema.graphql.context import Context
from aliquot_schema.graphql.roots import root_field
from aliquot_schema.graphql.scalars import BigInt
from aliquot_schema.statistics_views import QueueStatisticsView


@strawberry.type(description="How many sessions waited for so long before devices were granted to them.")
class WaitBucket:
    at_least: float = strawberry.field(description="Seconds.")
    below: float | None = strawberry.field(description="Seconds; null is however long.")
    count: int = strawberry.field(description="How many.")


@strawberry.type(description="The queue now, and how it went in the time just before. Times are seconds.")
class QueueStatistics:
    revision: BigInt = strawberry.field(description="The event number that it was read at.")
    total_queued: int = strawberry.field(description="Tasks that wait; a job array counts those of it that do.")
    oldest_wait: float | None = strawberry.field(description="How long the one has waited that waits longest.")
    window: float = strawberry.field(description="What the rest is about: the last hour, or what of it is in memory.")
    started: int = strawberry.field(description="Sessions and tasks of arrays that devices were granted to.")
    finished: int = strawberry.field(description="Those that ran and ended.")
    average_wait_time: float | None = strawberry.field(description="Of those started; null when none was.")
    median_wait_time: float | None = strawberry.field(description="Of those started; null when none was.")
    throughput: float = strawberry.field(description="Finished, per hour.")
    wait_distribution: list[WaitBucket] = strawberry.field(description="Of those started.")


@strawberry.type
class StatisticsQueries:
    @root_field(QueueStatistics, "How long the queue is, how long it lets wait, and how much it gets done.")
    async def queue_statistics(self, info: Info[Context, None]) -> QueueStatisticsView:
        return info.context.reader.queue_statistics(info.context.caller)
