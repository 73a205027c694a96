"""Inputs, and what they become for the service. Amounts stay text: the service reads them."""

import strawberry

from aliquot_schema.graphql.confinement_inputs import SandboxProfile, SecretUseInput, SessionLimitsInput
from aliquot_schema.graphql.enums import AgentState, DependencyCondition
from aliquot_schema.graphql.scalars import AnyPriority
from aliquot_schema.requests import AgentFilter, NewFallback, NewSession
from aliquot_schema.sessions import Priority


@strawberry.input(name="AgentFilter", description="Which agents; what is not given does not filter.")
class AgentFilterInput:
    ids: list[strawberry.ID] | None = strawberry.field(default=None, description="One of these.")
    states: list[AgentState] | None = strawberry.field(default=None, description="In one of these states.")
    node_id: str | None = strawberry.field(default=None, description="On this node.")

    def to_filter(self) -> AgentFilter:
        """For the reader."""
        return AgentFilter(ids=tuple(self.ids or ()), states=tuple(self.states or ()), node_id=self.node_id)


@strawberry.input(one_of=True, description="What to run: either a list of arguments or a shell string.")
class CommandInput:
    argv: list[str] | None = strawberry.field(
        default=strawberry.UNSET, description="The program and its arguments; no shell is involved."
    )
    shell: str | None = strawberry.field(default=strawberry.UNSET, description="A string for /bin/sh -c.")


@strawberry.input(description="How much of a slot each kernel needs.")
class SlotAmountInput:
    slot: str = strawberry.field(description="The slot's name, like `cpu` or `cuda.shares`.")
    amount: str = strawberry.field(description="A decimal number, or a size with a binary suffix, like 32g.")


@strawberry.input(description="A tag or an environment variable.")
class NameValueInput:
    name: str = strawberry.field(description="Its name.")
    value: str = strawberry.field(description="Its value.")


@strawberry.input(description="A session to wait for.")
class DependencyInput:
    session_id: strawberry.ID = strawberry.field(description="The session.")
    condition: DependencyCondition = strawberry.field(
        default=DependencyCondition.AFTER_OK, description="What it must come to."
    )


@strawberry.input(description="A smaller request to settle for after a wait; nothing makes the session grow back.")
class FallbackInput:
    slots: list[SlotAmountInput] = strawberry.field(description="What each kernel needs then.")
    after_s: float = strawberry.field(description="Seconds since the submission; longer than the one before it.")
    cluster_size: int | None = strawberry.field(default=None, description="How many kernels; without it, as at first.")
    gpu_memory_gb: str | None = strawberry.field(
        default=None, description="The least memory per device; without it, as before."
    )

    def to_request(self) -> NewFallback:
        """For the writer."""
        return NewFallback(
            slots=_amounts(self.slots),
            after_s=self.after_s,
            cluster_size=self.cluster_size,
            gpu_memory_gb=self.gpu_memory_gb,
        )


@strawberry.input(description="A session to submit.")
class CreateSessionInput:
    command: CommandInput = strawberry.field(description="What to run; at most 128 KiB.")
    slots: list[SlotAmountInput] = strawberry.field(description="What each kernel needs.")
    cluster_size: int = strawberry.field(default=1, description="How many kernels; all start or none.")
    gpu_memory_gb: str | None = strawberry.field(
        default=None, description="The least memory per device, in 10^9 bytes; filters devices and is no slot."
    )
    environment: list[NameValueInput] | None = strawberry.field(default=None, description="Variables to add.")
    working_directory: str | None = strawberry.field(
        default=None, description="Where to start; without it, in a folder of its own."
    )
    priority: AnyPriority = strawberry.field(default=AnyPriority(Priority.NORMAL), description="How urgent it is.")
    estimated_duration: float | None = strawberry.field(default=None, description="Seconds, as you estimate.")
    time_limit: float | None = strawberry.field(default=None, description="Seconds of wall time; then it is stopped.")
    max_retries: int = strawberry.field(default=0, description="How often it may be run again.")
    preemptible: bool = strawberry.field(default=False, description="Whether it may be asked to make room.")
    depends_on: list[DependencyInput] | None = strawberry.field(default=None, description="Sessions to wait for.")
    name: str | None = strawberry.field(default=None, description="What you call it.")
    run_id: str | None = strawberry.field(default=None, description="Your own id for it; need not be unique.")
    tags: list[NameValueInput] | None = strawberry.field(default=None, description="Your labels.")
    idempotency_key: str | None = strawberry.field(
        default=None, description="A retry with the same key and the same body answers with the first session."
    )
    project: str | None = strawberry.field(default=None, description="The project to charge.")
    pool: str | None = strawberry.field(default=None, description="The pool of agents to run in.")
    labels: list[NameValueInput] | None = strawberry.field(default=None, description="Labels that agents must have.")
    preferred_labels: list[NameValueInput] | None = strawberry.field(
        default=None, description="Labels of the agents to take where the whole session fits on such agents now."
    )
    models: list[str] | None = strawberry.field(
        default=None, description="Models that accelerators may be of, like *H100*; * and ? stand for any text."
    )
    preferred_models: list[str] | None = strawberry.field(
        default=None, description="Models to take where they fit now."
    )
    fallbacks: list[FallbackInput] | None = strawberry.field(
        default=None, description="Smaller requests to settle for, each smaller and later than the one before."
    )
    retries_own_failures: bool = strawberry.field(
        default=False, description="Try again, within max_retries, also when the command itself fails."
    )
    checkpoint_signal: str | None = strawberry.field(
        default=None, description="Sent first when it is to make room: a name or a number, like SIGUSR1."
    )
    grace: float | None = strawberry.field(default=None, description="Seconds from that signal to the stop.")
    array: str | None = strawberry.field(default=None, description="Submit a job array: its indices, like 0-99,105.")
    max_parallel: int | None = strawberry.field(
        default=None, description="So many tasks of the array are active at one time at most."
    )
    held: bool = strawberry.field(default=False, description="Hold it back until it is released.")
    local_name: str | None = strawberry.field(
        default=None, description="Within create_sessions: how others of the batch name it in depends_on."
    )
    limits: SessionLimitsInput | None = strawberry.field(default=None, description="What its kernels may use at most.")
    sandbox: SandboxProfile | None = strawberry.field(
        default=None, description="Go only to agents that can put it into this sandbox; without it, as they are set."
    )
    secrets: list[SecretUseInput] | None = strawberry.field(default=None, description="Your secrets that it is given.")

    def to_request(self) -> NewSession:
        """For the writer."""
        return NewSession(
            argv=tuple(argv) if isinstance(argv := self.command.argv, list) else None,
            shell=shell if isinstance(shell := self.command.shell, str) else None,
            slots=_amounts(self.slots),
            cluster_size=self.cluster_size,
            gpu_memory_gb=self.gpu_memory_gb,
            environment=_pairs(self.environment),
            working_directory=self.working_directory,
            priority=self.priority.name.lower(),
            estimated_duration=self.estimated_duration,
            time_limit=self.time_limit,
            max_retries=self.max_retries,
            preemptible=self.preemptible,
            depends_on=tuple((item.session_id, item.condition.value) for item in self.depends_on or ()),
            name=self.name,
            run_id=self.run_id,
            tags=_pairs(self.tags),
            idempotency_key=self.idempotency_key,
            project=self.project,
            pool=self.pool,
            labels=_pairs(self.labels),
            preferred_labels=_pairs(self.preferred_labels),
            models=tuple(self.models or ()),
            preferred_models=tuple(self.preferred_models or ()),
            fallbacks=tuple(item.to_request() for item in self.fallbacks or ()),
            retries_own_failures=self.retries_own_failures,
            checkpoint_signal=self.checkpoint_signal,
            grace=self.grace,
            array=self.array,
            max_parallel=self.max_parallel,
            held=self.held,
            local_name=self.local_name,
            processes=None if self.limits is None else self.limits.processes,
            open_files=None if self.limits is None else self.limits.open_files,
            sandbox=None if self.sandbox is None else self.sandbox.value,
            secrets=tuple((use.name, use.as_env, use.as_file) for use in self.secrets or ()),
        )


@strawberry.input(description="Sessions to submit together: all of them or none.")
class CreateSessionsInput:
    sessions: list[CreateSessionInput] = strawberry.field(
        description="At most 1000. One may wait for others by their local_name; a circle is refused."
    )


@strawberry.input(description="A session to change.")
class ChangeSessionInput:
    id: strawberry.ID = strawberry.field(description="The session, or one task of a job array as <array>_<index>.")
    expected_version: int | None = strawberry.field(
        default=None, description="Refuse if the session is not at this version."
    )


@strawberry.input(description="A session to cancel.")
class CancelSessionInput:
    id: strawberry.ID = strawberry.field(description="The session.")
    expected_version: int | None = strawberry.field(
        default=None, description="Refuse if the session is not at this version."
    )


@strawberry.input(description="A session that gets another priority.")
class UpdateSessionPriorityInput:
    id: strawberry.ID = strawberry.field(description="The session.")
    priority: AnyPriority = strawberry.field(description="The new priority.")
    expected_version: int | None = strawberry.field(
        default=None, description="Refuse if the session is not at this version."
    )


def _pairs(items: list[NameValueInput] | None) -> tuple[tuple[str, str], ...]:
    return tuple((item.name, item.value) for item in items or ())


def _amounts(items: list[SlotAmountInput]) -> tuple[tuple[str, str], ...]:
    return tuple((item.slot, item.amount) for item in items)
