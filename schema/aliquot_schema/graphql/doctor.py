"""An examination of the cluster."""

from datetime import datetime

import strawberry
from strawberry.types import Info

from aliquot_schema.doctor_views import ExaminationView
from aliquot_schema.graphql.context import Context
from aliquot_schema.graphql.enums import Discrepancy
from aliquot_schema.graphql.roots import root_field


@strawberry.type(description="Something that the store, an agent and its devices do not agree about.")
class Difference:
    kind: Discrepancy = strawberry.field(description="What does not agree with what.")
    agent_id: strawberry.ID = strawberry.field(description="The agent that it was seen on.")
    subject: str = strawberry.field(description="The kernel or the device.")
    evidence: str = strawberry.field(description="What was seen.")
    since: datetime | None = strawberry.field(
        description="Since when it is sure; null when it was seen just now, and may be gone with the next message."
    )
    repair: str | None = strawberry.field(description="What the server does about it once it is sure.")


@strawberry.type(description="What was found by asking every agent just now. Nothing was changed.")
class Examination:
    differences: list[Difference] = strawberry.field(description="By agent.")
    asked: list[str] = strawberry.field(description="Agents that answered.")
    silent: list[str] = strawberry.field(description="Agents that could not be asked.")


@strawberry.type
class DoctorQueries:
    @root_field(Examination, "Ask every agent now, and tell what does not agree. For operators.")
    async def doctor(self, info: Info[Context, None]) -> ExaminationView:
        return await info.context.admin.examine(info.context.caller)
