"""Inputs.

Generated from the schema by `python -m aliquot_schema.graphql.client_codegen`; do not edit.
"""

from collections.abc import Sequence

from msgspec import Struct

from aliquot.client.generated.enums import AgentState, DependencyCondition, SandboxProfile, Topology


class AgentFilter(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Filter of agents. Fields that are null match all agents."""

    ids: Sequence[str] | None = None
    """Ids of agents."""
    states: Sequence[AgentState] | None = None
    """States of agents."""
    node_id: str | None = None
    """Node of the agents."""


class AppInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A web service of a session."""

    name: str
    """Its name: up to 12 letters a-z and digits, the first a letter."""
    port: int = 0
    """
    TCP port that rank 0 listens on, on the loopback interface of its node; 0 = the server chooses one. The variable
    ALIQUOT_APP_NAME has it, with the name in capital letters.
    """


class CancelSessionInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A session to cancel."""

    id: str
    """The session."""
    expected_version: int | None = None
    """Expected current version; fails with VersionConflict otherwise."""


class ChangeSessionInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A session to change."""

    id: str
    """The session, or one task of a job array as `<array>_<index>`."""
    expected_version: int | None = None
    """Expected current version; fails with VersionConflict otherwise."""


class CommandInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The command: either a list of arguments or a shell command."""

    argv: Sequence[str] | None = None
    """Program and arguments, run without a shell."""
    shell: str | None = None
    """A command for `/bin/sh -c`."""


class SlotAmountInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Amount of a slot per kernel."""

    slot: str
    """Name of the slot, like `cpu` or `cuda.shares`."""
    amount: str
    """A decimal number, or a size with a binary suffix like `32g`."""


class NameValueInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A tag or an environment variable."""

    name: str
    """Name."""
    value: str
    """Value."""


class DependencyInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A session to wait for."""

    session_id: str
    """The session."""
    condition: DependencyCondition = DependencyCondition.AFTER_OK
    """Condition that the session must meet."""


class FallbackInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A smaller request that replaces the original one after a wait, for good."""

    slots: Sequence[SlotAmountInput]
    """Slots per kernel."""
    after_s: float
    """Seconds after submission; more than in the previous fallback."""
    cluster_size: int | None = None
    """Number of kernels; null = as in the original request."""
    gpu_memory_gb: str | None = None
    """Minimum memory per device, in 10^9 bytes; null = unchanged."""


class SessionLimitsInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Limits per kernel, within the operator's settings."""

    processes: int | None = None
    """Processes and threads."""
    open_files: int | None = None
    """Open files per process."""


class SecretUseInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A secret of the caller that each kernel receives as an environment variable, a file, or both."""

    name: str
    """Its name, as in `set_secret`."""
    as_env: str | None = None
    """Name of the variable."""
    as_file: str | None = None
    """Name of the file in the directory ALIQUOT_SECRETS_DIR."""


class MetricInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A number that a session prints, to be kept as a metric."""

    name: str
    """Letters, digits and `_ . / -`."""
    pattern: str
    """
    Text of a line with `{value}` in it, and `{step}` where there is one: `step {step} loss {value}`. A space stands for
    any blanks, everything else for itself.
    """


class PreflightInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """
    A check of the granted devices, on every rank, before the command of any rank starts. A node where it fails is
    replaced without using a retry.
    """

    command: CommandInput | None = None
    """Exit code 0 = passed. Null = the agent's own check: a bandwidth test where CUDA is there."""
    time_limit: float = 60.0
    """Seconds; a check that runs longer has failed."""


class CreateSessionInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A session to submit."""

    command: CommandInput
    """The command, at most 128 KiB."""
    slots: Sequence[SlotAmountInput]
    """Slots per kernel."""
    cluster_size: int = 1
    """Number of kernels; all start together or none does."""
    cluster_size_min: int | None = None
    """
    Makes the gang elastic: it starts with as many of its kernels as fit, at least this many. WORLD_SIZE tells them how
    many they are.
    """
    gpu_memory_gb: str | None = None
    """Minimum memory per device, in 10^9 bytes; restricts devices, does not reserve memory."""
    environment: Sequence[NameValueInput] | None = None
    """Environment variables to add."""
    working_directory: str | None = None
    """Working directory; null = a new directory of its own."""
    priority: str = "normal"
    """Priority."""
    estimated_duration: float | None = None
    """Estimated run time in seconds."""
    time_limit: float | None = None
    """Wall-time limit in seconds; the session is stopped at it."""
    max_retries: int = 0
    """Maximum number of retries."""
    preemptible: bool = False
    """Whether it may be preempted."""
    depends_on: Sequence[DependencyInput] | None = None
    """Sessions that it waits for."""
    name: str | None = None
    """Name for display."""
    run_id: str | None = None
    """Client-defined id; need not be unique."""
    tags: Sequence[NameValueInput] | None = None
    """Client-defined tags."""
    idempotency_key: str | None = None
    """A repeated request with the same key and the same content returns the first session."""
    project: str | None = None
    """Project to charge; null = the default project."""
    pool: str | None = None
    """Pool of agents to run in; null = the default pool."""
    labels: Sequence[NameValueInput] | None = None
    """Labels that its agents must have."""
    preferred_labels: Sequence[NameValueInput] | None = None
    """Labels of preferred agents: they are used if the whole session fits on them now."""
    models: Sequence[str] | None = None
    """Allowed accelerator models: patterns with `*` and `?`, like `*H100*`; null = any."""
    preferred_models: Sequence[str] | None = None
    """Preferred accelerator models: they are used if the session fits on them now."""
    topology: Topology = Topology.PREFER
    """Whether the kernels of a gang are placed on as few switches as possible, or on one or not at all."""
    fallbacks: Sequence[FallbackInput] | None = None
    """Smaller requests that apply after a wait, each smaller and later than the previous one."""
    retries_own_failures: bool = False
    """Retry, within `max_retries`, also when the command itself fails."""
    checkpoint_signal: str | None = None
    """
    Signal that asks it to save its work, as a name or a number, like `SIGUSR1`: every `checkpoint_every`, before the
    time limit, and when it is preempted.
    """
    checkpoint_every: float | None = None
    """Seconds between its checkpoints, a promise: at most that much lost work is credited."""
    grace: float | None = None
    """Seconds from that signal to the stop; null = the policy's."""
    array: str | None = None
    """Submit a job array with these indices, like `0-99,105`."""
    max_parallel: int | None = None
    """Maximum number of active tasks of the array."""
    held: bool = False
    """Submit it in state held, to be released later."""
    local_name: str | None = None
    """Within `create_sessions`: name for references in `depends_on` of the same batch."""
    limits: SessionLimitsInput | None = None
    """Limits per kernel."""
    sandbox: SandboxProfile | None = None
    """Run only on agents that provide this sandbox; null = each agent's setting."""
    secrets: Sequence[SecretUseInput] | None = None
    """The caller's secrets that it receives."""
    metrics: Sequence[MetricInput] | None = None
    """Metrics in its output, besides those of lines like `::metric loss=0.31 step=40`."""
    booking: str | None = None
    """Name or id of a booking of the caller or their project, whose GPUs it uses."""
    apps: Sequence[AppInput] | None = None
    """Web services of rank 0 to pass on, each at an address of its own."""
    workspace: str | None = None
    """Id of a workspace that the caller has uploaded; it is unpacked into the working directory."""
    image: str | None = None
    """Container image to run the command in, on agents that can run containers."""
    shares_access: bool = False
    """Whether members of its project may open its terminals, ports and web services."""
    preflight: PreflightInput | None = None
    """Check before the command; null = none."""
    activates: str | None = None
    """
    Environment for the command: `uv` for the workspace's own `uv.lock`, or the path of a venv or conda environment on
    the nodes.
    """


class CreateSessionsInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Sessions to submit together, all or none."""

    sessions: Sequence[CreateSessionInput]
    """At most 1000 sessions. They may depend on each other by `local_name`; cycles are rejected."""


class UpdateSessionInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Changes of a waiting session's request. Fields that are null stay as they are."""

    id: str
    """The session."""
    slots: Sequence[SlotAmountInput] | None = None
    """
    Slots per kernel. New GPUs replace all earlier ones, and the CPUs and memory that came with them follow; other
    amounts that are not named stay. An amount of 0 is not requested any more.
    """
    cluster_size: int | None = None
    """Number of kernels."""
    time_limit: float | None = None
    """Wall-time limit in seconds."""
    preemptible: bool | None = None
    """Whether it may be preempted."""
    priority: str | None = None
    """Priority."""
    project: str | None = None
    """Project to charge."""
    pool: str | None = None
    """Pool of agents to run in."""
    models: Sequence[str] | None = None
    """Allowed accelerator models, as in `create_session`; an empty list allows any."""
    expected_version: int | None = None
    """Expected current version; fails with VersionConflict otherwise."""


class UpdateSessionPrioritiesInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A new priority for several sessions, for all of them or none."""

    ids: Sequence[str]
    """At most 1000 sessions."""
    priority: str
    """The new priority."""


class UpdateSessionPriorityInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A new priority for a session."""

    id: str
    """The session."""
    priority: str
    """The new priority."""
    expected_version: int | None = None
    """Expected current version; fails with VersionConflict otherwise."""
