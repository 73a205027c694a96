"""GraphQL API of observed use: who uses which GPU now, and the hours of a week, whoever started the processes."""

from typing import Annotated

import strawberry
from strawberry.types import Info

from aliquot_schema.graphql.context import Context
from aliquot_schema.graphql.fields import argument, root_field
from aliquot_schema.graphql.scalars import BigInt
from aliquot_schema.views.observation import ObservedGpuView, ObservedWeekView


@strawberry.type(description="Somebody who uses a GPU.")
class GpuPerson:
    user: str = strawberry.field(description="A user, or the Unix account of processes that belong to no user.")
    processes: int = strawberry.field(description="Processes that Aliquot did not start; 0 = a session alone.")
    memory_bytes: BigInt = strawberry.field(description="GPU memory of these processes.")


@strawberry.type(description="One GPU now, with who uses it.")
class ObservedGpu:
    node_id: strawberry.ID = strawberry.field(description="The node.")
    hostname: str = strawberry.field(description="The node's hostname.")
    gpu_id: strawberry.ID = strawberry.field(description="The GPU.")
    name: str = strawberry.field(description="The GPU as its agent names it.")
    model: str = strawberry.field(description="Its model.")
    utilization_pct: float | None = strawberry.field(description="Utilization, 0 to 100; null = not measured.")
    memory_used_bytes: BigInt | None = strawberry.field(description="Memory in use; null = not measured.")
    people: list[GpuPerson] = strawberry.field(description="Who uses it; empty = nobody.")
    sessions: list[strawberry.ID] = strawberry.field(description="Sessions that hold it.")


@strawberry.type(description="One person's GPU-hours in a week.")
class ObservedPerson:
    user: str = strawberry.field(description="A user, or a Unix account.")
    gpu_hours: float = strawberry.field(description="Time with processes or a session on a GPU; shared GPUs in parts.")
    idle_hours: float = strawberry.field(description="Part of it while the GPU was not used.")
    fair_hours: float = strawberry.field(description="An equal part of all GPU time among those who used GPUs.")


@strawberry.type(description="What was measured in a week.")
class ObservedWeek:
    week: str = strawberry.field(description="The ISO week, like `2026-W48`.")
    gpu_hours: float = strawberry.field(description="Time of all GPUs while the server measured.")
    used_hours: float = strawberry.field(description="Part of it with processes or a session.")
    idle_hours: float = strawberry.field(description="Part of that while the GPU was not used.")
    people: list[ObservedPerson] = strawberry.field(description="By person, the most hours first.")
    would_lose: list[strawberry.ID] = strawberry.field(
        description="Sessions that would lose their GPUs now if `preemption.idle.action` were not `observe`; of the "
        "present week only, otherwise empty."
    )


@strawberry.type
class ObservationQueries:
    """Part of `Query`."""

    @root_field(list[ObservedGpu], "Who uses which GPU now, by the processes on it, whoever started them.")
    async def observed_gpus(self, info: Info[Context, None]) -> tuple[ObservedGpuView, ...]:
        return info.context.services.queries.observed_gpus(info.context.caller)

    @root_field(
        ObservedWeek | None,
        "GPU-hours by person in a week, whoever started the processes; null if nothing was recorded. Recorded by a "
        "server in the mode observe or advise.",
    )
    async def observed_week(
        self,
        info: Info[Context, None],
        week: Annotated[str | None, argument("An ISO week like `2026-W48`; null = the present one.")] = None,
    ) -> ObservedWeekView | None:
        return info.context.services.queries.observed_week(info.context.caller, week)
