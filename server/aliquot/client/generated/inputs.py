"""Inputs.

Generated from the schema by `python -m aliquot_schema.graphql.client_codegen`; do not edit.
"""

from collections.abc import Sequence

from msgspec import Struct

from aliquot.client.generated.enums import AgentState, DependencyCondition, SandboxProfile


class AgentFilter(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Filter of agents. Fields that are null match all agents."""

    ids: Sequence[str] | None = None
    """Ids of agents."""
    states: Sequence[AgentState] | None = None
    """States of agents."""
    node_id: str | None = None
    """Node of the agents."""


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


class CreateSessionInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A session to submit."""

    command: CommandInput
    """The command, at most 128 KiB."""
    slots: Sequence[SlotAmountInput]
    """Slots per kernel."""
    cluster_size: int = 1
    """Number of kernels; all start together or none does."""
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
    fallbacks: Sequence[FallbackInput] | None = None
    """Smaller requests that apply after a wait, each smaller and later than the previous one."""
    retries_own_failures: bool = False
    """Retry, within `max_retries`, also when the command itself fails."""
    checkpoint_signal: str | None = None
    """Signal sent before a preemption, as a name or a number, like `SIGUSR1`."""
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


class CreateSessionsInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Sessions to submit together, all or none."""

    sessions: Sequence[CreateSessionInput]
    """At most 1000 sessions. They may depend on each other by `local_name`; cycles are rejected."""


class UpdateSessionPriorityInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A new priority for a session."""

    id: str
    """The session."""
    priority: str
    """The new priority."""
    expected_version: int | None = None
    """Expected current version; fails with VersionConflict otherwise."""
