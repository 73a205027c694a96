"""What the cluster is divided into: pools of agents, and projects of people."""

from typing import Annotated

import strawberry
from strawberry.types import Info

from aliquot_schema.division_views import ClusterPoolView, ProjectView
from aliquot_schema.graphql.administration_types import Quota, Usage
from aliquot_schema.graphql.cluster import SlotCapacity
from aliquot_schema.graphql.context import Context
from aliquot_schema.graphql.descriptions import argument
from aliquot_schema.graphql.roots import root_field


@strawberry.type(
    description="A part of the cluster that sessions choose by name, and what is in it. A device that agents of "
    "several pools see counts in each of them."
)
class ClusterPool:
    name: str = strawberry.field(description="Its name.")
    agents: list[strawberry.ID] = strawberry.field(description="Its agents, but for those that left.")
    nodes: list[strawberry.ID] = strawberry.field(description="The hosts that these are on.")
    schedulable: bool = strawberry.field(description="Whether any of its agents is given new work now.")
    gpu_count: int = strawberry.field(
        description="GPUs of its agents that can be asked, each once; those included that are not healthy."
    )
    gpu_type: str = strawberry.field(description="Their models, most of them first; empty without GPUs.")
    total_gpus: float = strawberry.field(description="Healthy GPUs, each once.")
    available_gpus: float = strawberry.field(
        description="What of these may be given to somebody, in fractions and in whatever pieces; "
        "those of drained agents, and those that processes of others are on, are not."
    )
    allocated_gpus: float = strawberry.field(description="What of these is held, in fractions.")
    capacity: list[SlotCapacity] = strawberry.field(description="By slot.")
    total_queued: int = strawberry.field(description="Tasks that wait for it; a job array counts those of it that do.")
    running: int = strawberry.field(description="Sessions and tasks of arrays that were given devices of it.")


@strawberry.type(description="What people do together. A project is known once somebody used it, or gave it a quota.")
class Project:
    name: str = strawberry.field(description="Its name.")
    users: list[str] = strawberry.field(description="Who has held something for it, or has a session of it now.")
    total_queued: int = strawberry.field(description="Tasks that wait; a job array counts those of it that do.")
    running: int = strawberry.field(description="Sessions and tasks of arrays that were given devices.")
    allocated_gpus: float = strawberry.field(description="GPUs that its sessions hold, parts as parts.")
    gpu_hours: float = strawberry.field(description="Of a whole device, weighted by `charges`: all of it.")
    gpu_hours_month: float = strawberry.field(description="The same in this calendar month, UTC.")
    share: float = strawberry.field(description="Of all use that counts in fair share now, 0 to 1.")
    usage: list[Usage] = strawberry.field(description="By user, of those who ever held something for it.")
    quota: Quota | None = strawberry.field(description="Its limits; null when nothing but the cluster's limits it.")


@strawberry.type
class DivisionQueries:
    """Part of `Query`."""

    @root_field(list[ClusterPool], "The pools of the policy, and what is in them, waits for them and runs there.")
    async def pools(
        self, info: Info[Context, None], name: Annotated[str | None, argument("This one alone.")] = None
    ) -> tuple[ClusterPoolView, ...]:
        return info.context.reader.pools(info.context.caller, name=name)

    @root_field(list[Project], "Projects: who uses them, what they hold and have used, and their quotas.")
    async def projects(
        self, info: Info[Context, None], name: Annotated[str | None, argument("This one alone.")] = None
    ) -> tuple[ProjectView, ...]:
        return info.context.reader.projects(info.context.caller, name=name)
