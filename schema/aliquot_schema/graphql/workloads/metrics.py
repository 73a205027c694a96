"""GraphQL API of metrics: numbers that sessions print, as series and as a table of an array's tasks."""

from typing import Annotated

import strawberry
from strawberry.types import Info

from aliquot_schema.errors import InvalidRequest, Unavailable
from aliquot_schema.graphql.context import Context, FilesPort
from aliquot_schema.graphql.enums import SessionState
from aliquot_schema.graphql.fields import argument, root_field
from aliquot_schema.graphql.pagination import First, page_of
from aliquot_schema.graphql.scalars import BigInt
from aliquot_schema.metrics import MetricReport as Report
from aliquot_schema.views.results import TaskMetricsPage

FIRST_DEFAULT = 100


@strawberry.type(description="A metric of one output. A point without a printed step has its number, from 0, as step.")
class MetricSeries:
    name: str = strawberry.field(description="Its name.")
    count: BigInt = strawberry.field(description="Number of points that were printed.")
    last: float = strawberry.field(description="The newest value.")
    low: float = strawberry.field(description="The lowest value of all points.")
    low_step: BigInt = strawberry.field(description="Its step.")
    high: float = strawberry.field(description="The highest value of all points.")
    high_step: BigInt = strawberry.field(description="Its step.")
    steps: list[BigInt] = strawberry.field(description="Steps of at most 400 points, thinned out.")
    values: list[float] = strawberry.field(description="Values of these points.")


@strawberry.type(description="The metrics in the output of one kernel.")
class SessionMetrics:
    series: list[MetricSeries] = strawberry.field(description="By name.")
    is_partial: bool = strawberry.field(
        description="Whether there is more output to read than one request reads; the next one goes on."
    )


@strawberry.type(description="The metrics of a task of a job array.")
class TaskMetrics:
    index: int = strawberry.field(description="Index of the task.")
    session_id: strawberry.ID = strawberry.field(description="Its session.")
    state: SessionState = strawberry.field(description="Its state.")
    series: list[MetricSeries] = strawberry.field(description="By name.")


@strawberry.type(description="The metrics of tasks of a job array that have started and whose agent answers, by index.")
class ArrayMetrics:
    tasks: list[TaskMetrics] = strawberry.field(description="The tasks of this page.")
    end: int | None = strawberry.field(description="Index to pass as `after` for the next page; null at the end.")


@strawberry.type
class MetricQueries:
    """Part of `Query`."""

    @root_field(
        SessionMetrics,
        "Metrics in the output of a session: lines like `::metric loss=0.31 step=40`, and those of its request. For "
        "the session's owner and admins.",
    )
    async def session_metrics(
        self,
        info: Info[Context, None],
        id: Annotated[strawberry.ID, argument("The session.")],
        rank: Annotated[int, argument("Rank of the kernel, from 0.")] = 0,
    ) -> Report:
        if rank < 0:
            raise InvalidRequest(f"`rank` must be 0 or more, not {rank}", field="rank")
        return await _files(info).metrics(info.context.caller, id, rank=rank)

    @root_field(ArrayMetrics, "Metrics of the tasks of a job array. For the array's owner and admins.")
    async def array_metrics(
        self,
        info: Info[Context, None],
        id: Annotated[strawberry.ID, argument("The job array.")],
        first: First = FIRST_DEFAULT,
        after: Annotated[int | None, argument("`end` of the page before.")] = None,
    ) -> TaskMetricsPage:
        page_of(first, None)
        return await _files(info).task_metrics(info.context.caller, id, first=first, after=after)


def _files(info: Info[Context, None]) -> FilesPort:
    files = info.context.services.files
    if files is None:
        raise Unavailable("this server has no results of sessions")
    return files
