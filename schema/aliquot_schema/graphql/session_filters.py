"""Which sessions, as GraphQL asks for them."""

from datetime import datetime

import strawberry

from aliquot_schema.graphql.descriptions import optional
from aliquot_schema.graphql.enums import SessionState
from aliquot_schema.graphql.scalars import AnyPriority
from aliquot_schema.session_lists import SessionFilter, TimeRange


@strawberry.input(name="TimeRange", description="A time from one moment to another, both included.")
class TimeRangeInput:
    since: datetime | None = optional("Not before this.")
    until: datetime | None = optional("Not after this.")


@strawberry.input(name="SessionFilter", description="Which sessions; what is not given does not filter.")
class SessionFilterInput:
    ids: list[strawberry.ID] | None = optional("One of these.")
    states: list[SessionState] | None = optional("In one of these states.")
    owners: list[str] | None = optional("Submitted by one of these.")
    run_id: str | None = optional("With this id of the client's own; of those whose run_id you are shown.")
    name: str | None = optional("With exactly this name.")
    projects: list[str] | None = optional("Charged to one of these.")
    search: str | None = optional("With this in their name or id; the case of the letters A to Z does not count.")
    pools: list[str] | None = optional("For one of these pools of agents.")
    priorities: list[AnyPriority] | None = optional("Of one of these priorities.")
    array_id: strawberry.ID | None = optional("Tasks of this job array.")
    queued_at: TimeRangeInput | None = optional("Submitted within this time.")
    started_at: TimeRangeInput | None = optional("Started within this time.")
    ended_at: TimeRangeInput | None = optional("Ended within this time.")
    exit_codes: list[int] | None = optional(
        "Ended with one of these exit codes; of those whose exit code you are shown."
    )
    failures: list[str] | None = optional(
        "Failed for a reason with one of these codes, like time_limit, signal, exit_code or kernel_lost; "
        "of those whose failure you are shown."
    )
    agents: list[strawberry.ID] | None = optional("The newest attempt is, or was, on one of these agents.")
    nodes: list[str] | None = optional("The newest attempt is, or was, on an agent that is on one of these nodes.")
    devices: list[str] | None = optional(
        "The newest attempt holds, or held, a part of one of these devices, by their ids."
    )

    def to_filter(self) -> SessionFilter:
        """For the reader."""
        return SessionFilter(
            ids=tuple(self.ids or ()),
            states=tuple(self.states or ()),
            owners=tuple(self.owners or ()),
            run_id=self.run_id,
            name=self.name,
            projects=tuple(self.projects or ()),
            search=self.search,
            pools=tuple(self.pools or ()),
            priorities=tuple(self.priorities or ()),
            array_id=self.array_id,
            queued_at=_range(self.queued_at),
            started_at=_range(self.started_at),
            ended_at=_range(self.ended_at),
            exit_codes=tuple(self.exit_codes or ()),
            failures=tuple(self.failures or ()),
            agents=tuple(self.agents or ()),
            nodes=tuple(self.nodes or ()),
            devices=tuple(self.devices or ()),
        )


def _range(given: TimeRangeInput | None) -> TimeRange | None:
    return None if given is None else TimeRange(since=given.since, until=given.until)
