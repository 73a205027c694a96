"""Inputs of sessions and agents, and their conversion to requests. Amounts stay text; the service parses them."""

import strawberry

from aliquot_schema.graphql.enums import AgentState, DependencyCondition, Topology
from aliquot_schema.graphql.enums import SandboxProfile as SandboxProfile
from aliquot_schema.graphql.scalars import AnyPriority
from aliquot_schema.requests import AgentFilter, NewFallback, NewSession, SessionAmendment
from aliquot_schema.sessions import PREFLIGHT_LIMIT_MS, Priority


@strawberry.input(description="Limits per kernel, within the operator's settings.")
class SessionLimitsInput:
    processes: int | None = strawberry.field(default=None, description="Processes and threads.")
    open_files: int | None = strawberry.field(default=None, description="Open files per process.")


@strawberry.input(
    description="A secret of the caller that each kernel receives as an environment variable, a file, or both."
)
class SecretUseInput:
    name: str = strawberry.field(description="Its name, as in `set_secret`.")
    as_env: str | None = strawberry.field(default=None, description="Name of the variable.")
    as_file: str | None = strawberry.field(
        default=None, description="Name of the file in the directory ALIQUOT_SECRETS_DIR."
    )


@strawberry.input(name="AgentFilter", description="Filter of agents. Fields that are null match all agents.")
class AgentFilterInput:
    ids: list[strawberry.ID] | None = strawberry.field(default=None, description="Ids of agents.")
    states: list[AgentState] | None = strawberry.field(default=None, description="States of agents.")
    node_id: str | None = strawberry.field(default=None, description="Node of the agents.")

    def to_filter(self) -> AgentFilter:
        """The filter as a domain value."""
        return AgentFilter(ids=tuple(self.ids or ()), states=tuple(self.states or ()), node_id=self.node_id)


@strawberry.input(one_of=True, description="The command: either a list of arguments or a shell command.")
class CommandInput:
    argv: list[str] | None = strawberry.field(
        default=strawberry.UNSET, description="Program and arguments, run without a shell."
    )
    shell: str | None = strawberry.field(default=strawberry.UNSET, description="A command for `/bin/sh -c`.")


@strawberry.input(description="Amount of a slot per kernel.")
class SlotAmountInput:
    slot: str = strawberry.field(description="Name of the slot, like `cpu` or `cuda.shares`.")
    amount: str = strawberry.field(description="A decimal number, or a size with a binary suffix like `32g`.")


@strawberry.input(description="A tag or an environment variable.")
class NameValueInput:
    name: str = strawberry.field(description="Name.")
    value: str = strawberry.field(description="Value.")


@strawberry.input(description="A number that a session prints, to be kept as a metric.")
class MetricInput:
    name: str = strawberry.field(description="Letters, digits and `_ . / -`.")
    pattern: str = strawberry.field(
        description="Text of a line with `{value}` in it, and `{step}` where there is one: `step {step} loss {value}`. "
        "A space stands for any blanks, everything else for itself."
    )


@strawberry.input(description="A session to wait for.")
class DependencyInput:
    session_id: strawberry.ID = strawberry.field(description="The session.")
    condition: DependencyCondition = strawberry.field(
        default=DependencyCondition.AFTER_OK, description="Condition that the session must meet."
    )


@strawberry.input(description="A smaller request that replaces the original one after a wait, for good.")
class FallbackInput:
    slots: list[SlotAmountInput] = strawberry.field(description="Slots per kernel.")
    after_s: float = strawberry.field(description="Seconds after submission; more than in the previous fallback.")
    cluster_size: int | None = strawberry.field(
        default=None, description="Number of kernels; null = as in the original request."
    )
    gpu_memory_gb: str | None = strawberry.field(
        default=None, description="Minimum memory per device, in 10^9 bytes; null = unchanged."
    )

    def to_request(self) -> NewFallback:
        """The input as a request."""
        return NewFallback(
            slots=_amounts(self.slots),
            after_s=self.after_s,
            cluster_size=self.cluster_size,
            gpu_memory_gb=self.gpu_memory_gb,
        )


@strawberry.input(name="AppInput", description="A web service of a session.")
class AppInput:
    name: str = strawberry.field(description="Its name: up to 12 letters a-z and digits, the first a letter.")
    port: int = strawberry.field(
        default=0,
        description="TCP port that rank 0 listens on, on the loopback interface of its node; 0 = the server chooses "
        "one. The variable ALIQUOT_APP_NAME has it, with the name in capital letters.",
    )


@strawberry.input(
    description="A check of the granted devices, on every rank, before the command of any rank starts. A node where it "
    "fails is replaced without using a retry."
)
class PreflightInput:
    command: CommandInput | None = strawberry.field(
        default=None,
        description="Exit code 0 = passed. Null = the agent's own check: a bandwidth test where CUDA is there.",
    )
    time_limit: float = strawberry.field(
        default=PREFLIGHT_LIMIT_MS / 1000, description="Seconds; a check that runs longer has failed."
    )

    def argv(self) -> tuple[str, ...]:
        """The command; empty = the agent's own check."""
        if self.command is None:
            return ()
        shell = self.command.shell
        if isinstance(shell, str):
            return ("/bin/sh", "-c", shell) if shell.strip() else ("",)
        argv = self.command.argv
        return tuple(argv) if isinstance(argv, list) and argv else ("",)


@strawberry.input(description="A session to submit.")
class CreateSessionInput:
    command: CommandInput = strawberry.field(description="The command, at most 128 KiB.")
    slots: list[SlotAmountInput] = strawberry.field(description="Slots per kernel.")
    cluster_size: int = strawberry.field(default=1, description="Number of kernels; all start together or none does.")
    cluster_size_min: int | None = strawberry.field(
        default=None,
        description="Makes the gang elastic: it starts with as many of its kernels as fit, at least this many. "
        "WORLD_SIZE tells them how many they are.",
    )
    gpu_memory_gb: str | None = strawberry.field(
        default=None,
        description="Minimum memory per device, in 10^9 bytes; restricts devices, does not reserve memory.",
    )
    environment: list[NameValueInput] | None = strawberry.field(
        default=None, description="Environment variables to add."
    )
    working_directory: str | None = strawberry.field(
        default=None, description="Working directory; null = a new directory of its own."
    )
    priority: AnyPriority = strawberry.field(default=AnyPriority(Priority.NORMAL), description="Priority.")
    estimated_duration: float | None = strawberry.field(default=None, description="Estimated run time in seconds.")
    time_limit: float | None = strawberry.field(
        default=None, description="Wall-time limit in seconds; the session is stopped at it."
    )
    max_retries: int = strawberry.field(default=0, description="Maximum number of retries.")
    preemptible: bool = strawberry.field(default=False, description="Whether it may be preempted.")
    depends_on: list[DependencyInput] | None = strawberry.field(default=None, description="Sessions that it waits for.")
    name: str | None = strawberry.field(default=None, description="Name for display.")
    run_id: str | None = strawberry.field(default=None, description="Client-defined id; need not be unique.")
    tags: list[NameValueInput] | None = strawberry.field(default=None, description="Client-defined tags.")
    idempotency_key: str | None = strawberry.field(
        default=None, description="A repeated request with the same key and the same content returns the first session."
    )
    project: str | None = strawberry.field(default=None, description="Project to charge; null = the default project.")
    pool: str | None = strawberry.field(default=None, description="Pool of agents to run in; null = the default pool.")
    labels: list[NameValueInput] | None = strawberry.field(
        default=None, description="Labels that its agents must have."
    )
    preferred_labels: list[NameValueInput] | None = strawberry.field(
        default=None, description="Labels of preferred agents: they are used if the whole session fits on them now."
    )
    models: list[str] | None = strawberry.field(
        default=None, description="Allowed accelerator models: patterns with `*` and `?`, like `*H100*`; null = any."
    )
    preferred_models: list[str] | None = strawberry.field(
        default=None, description="Preferred accelerator models: they are used if the session fits on them now."
    )
    topology: Topology = strawberry.field(
        default=Topology.PREFER,
        description="Whether the kernels of a gang are placed on as few switches as possible, or on one or not at all.",
    )
    fallbacks: list[FallbackInput] | None = strawberry.field(
        default=None,
        description="Smaller requests that apply after a wait, each smaller and later than the previous one.",
    )
    retries_own_failures: bool = strawberry.field(
        default=False, description="Retry, within `max_retries`, also when the command itself fails."
    )
    checkpoint_signal: str | None = strawberry.field(
        default=None,
        description="Signal that asks it to save its work, as a name or a number, like `SIGUSR1`: every "
        "`checkpoint_every`, before the time limit, and when it is preempted.",
    )
    checkpoint_every: float | None = strawberry.field(
        default=None,
        description="Seconds between its checkpoints, a promise: at most that much lost work is credited.",
    )
    grace: float | None = strawberry.field(
        default=None, description="Seconds from that signal to the stop; null = the policy's."
    )
    array: str | None = strawberry.field(
        default=None, description="Submit a job array with these indices, like `0-99,105`."
    )
    max_parallel: int | None = strawberry.field(
        default=None, description="Maximum number of active tasks of the array."
    )
    held: bool = strawberry.field(default=False, description="Submit it in state held, to be released later.")
    local_name: str | None = strawberry.field(
        default=None, description="Within `create_sessions`: name for references in `depends_on` of the same batch."
    )
    limits: SessionLimitsInput | None = strawberry.field(default=None, description="Limits per kernel.")
    sandbox: SandboxProfile | None = strawberry.field(
        default=None, description="Run only on agents that provide this sandbox; null = each agent's setting."
    )
    secrets: list[SecretUseInput] | None = strawberry.field(
        default=None, description="The caller's secrets that it receives."
    )
    metrics: list[MetricInput] | None = strawberry.field(
        default=None, description="Metrics in its output, besides those of lines like `::metric loss=0.31 step=40`."
    )
    booking: str | None = strawberry.field(
        default=None,
        description="Name or id of a booking of the caller or their project, whose GPUs it uses.",
    )

    apps: list[AppInput] | None = strawberry.field(
        default=None, description="Web services of rank 0 to pass on, each at an address of its own."
    )
    workspace: str | None = strawberry.field(
        default=None,
        description="Id of a workspace that the caller has uploaded; it is unpacked into the working directory.",
    )
    image: str | None = strawberry.field(
        default=None, description="Container image to run the command in, on agents that can run containers."
    )
    shares_access: bool = strawberry.field(
        default=False, description="Whether members of its project may open its terminals, ports and web services."
    )
    preflight: PreflightInput | None = strawberry.field(
        default=None, description="Check before the command; null = none."
    )
    activates: str | None = strawberry.field(
        default=None,
        description="Environment for the command: `uv` for the workspace's own `uv.lock`, or the path of a venv or "
        "conda environment on the nodes.",
    )

    def to_request(self) -> NewSession:
        """The input as a request."""
        return NewSession(
            argv=tuple(argv) if isinstance(argv := self.command.argv, list) else None,
            shell=shell if isinstance(shell := self.command.shell, str) else None,
            slots=_amounts(self.slots),
            cluster_size=self.cluster_size,
            cluster_size_min=self.cluster_size_min,
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
            topology=self.topology.value,
            fallbacks=tuple(item.to_request() for item in self.fallbacks or ()),
            retries_own_failures=self.retries_own_failures,
            checkpoint_signal=self.checkpoint_signal,
            checkpoint_every=self.checkpoint_every,
            grace=self.grace,
            array=self.array,
            max_parallel=self.max_parallel,
            held=self.held,
            local_name=self.local_name,
            processes=None if self.limits is None else self.limits.processes,
            open_files=None if self.limits is None else self.limits.open_files,
            sandbox=None if self.sandbox is None else self.sandbox.value,
            booking=self.booking,
            apps=tuple((app.name, app.port) for app in self.apps or ()),
            workspace=self.workspace,
            activates=self.activates,
            image=self.image,
            shares_access=self.shares_access,
            preflight=None if self.preflight is None else self.preflight.argv(),
            preflight_limit=None if self.preflight is None else self.preflight.time_limit,
            metrics=tuple((one.name, one.pattern) for one in self.metrics or ()),
            secrets=tuple((use.name, use.as_env, use.as_file) for use in self.secrets or ()),
        )


@strawberry.input(description="Sessions to submit together, all or none.")
class CreateSessionsInput:
    sessions: list[CreateSessionInput] = strawberry.field(
        description="At most 1000 sessions. They may depend on each other by `local_name`; cycles are rejected."
    )


@strawberry.input(description="A session to change.")
class ChangeSessionInput:
    id: strawberry.ID = strawberry.field(description="The session, or one task of a job array as `<array>_<index>`.")
    expected_version: int | None = strawberry.field(
        default=None, description="Expected current version; fails with VersionConflict otherwise."
    )


@strawberry.input(description="A session to cancel.")
class CancelSessionInput:
    id: strawberry.ID = strawberry.field(description="The session.")
    expected_version: int | None = strawberry.field(
        default=None, description="Expected current version; fails with VersionConflict otherwise."
    )


@strawberry.input(description="A new priority for a session.")
class UpdateSessionPriorityInput:
    id: strawberry.ID = strawberry.field(description="The session.")
    priority: AnyPriority = strawberry.field(description="The new priority.")
    expected_version: int | None = strawberry.field(
        default=None, description="Expected current version; fails with VersionConflict otherwise."
    )


@strawberry.input(description="A new priority for several sessions, for all of them or none.")
class UpdateSessionPrioritiesInput:
    ids: list[strawberry.ID] = strawberry.field(description="At most 1000 sessions.")
    priority: AnyPriority = strawberry.field(description="The new priority.")


@strawberry.input(description="Changes of a waiting session's request. Fields that are null stay as they are.")
class UpdateSessionInput:
    id: strawberry.ID = strawberry.field(description="The session.")
    slots: list[SlotAmountInput] | None = strawberry.field(
        default=None,
        description="Slots per kernel. New GPUs replace all earlier ones, and the CPUs and memory that came with them "
        "follow; other amounts that are not named stay. An amount of 0 is not requested any more.",
    )
    cluster_size: int | None = strawberry.field(default=None, description="Number of kernels.")
    time_limit: float | None = strawberry.field(default=None, description="Wall-time limit in seconds.")
    preemptible: bool | None = strawberry.field(default=None, description="Whether it may be preempted.")
    priority: AnyPriority | None = strawberry.field(default=None, description="Priority.")
    project: str | None = strawberry.field(default=None, description="Project to charge.")
    pool: str | None = strawberry.field(default=None, description="Pool of agents to run in.")
    models: list[str] | None = strawberry.field(
        default=None, description="Allowed accelerator models, as in `create_session`; an empty list allows any."
    )
    expected_version: int | None = strawberry.field(
        default=None, description="Expected current version; fails with VersionConflict otherwise."
    )

    def to_amendment(self) -> SessionAmendment:
        """The input as changes."""
        return SessionAmendment(
            slots=None if self.slots is None else _amounts(self.slots),
            cluster_size=self.cluster_size,
            time_limit=self.time_limit,
            preemptible=self.preemptible,
            priority=None if self.priority is None else self.priority.name.lower(),
            project=self.project,
            pool=self.pool,
            models=None if self.models is None else tuple(self.models),
        )


def _pairs(items: list[NameValueInput] | None) -> tuple[tuple[str, str], ...]:
    return tuple((item.name, item.value) for item in items or ())


def _amounts(items: list[SlotAmountInput]) -> tuple[tuple[str, str], ...]:
    return tuple((item.slot, item.amount) for item in items)
