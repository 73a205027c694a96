"""Inputs.

Made from the schema by `python -m aliquot_schema.graphql.client_code`; not to be edited.
"""

from collections.abc import Sequence

from msgspec import Struct

from aliquot.client.generated.confinement_inputs import SecretUseInput, SessionLimitsInput
from aliquot.client.generated.enums import AgentState, DependencyCondition, SandboxProfile


class AgentFilter(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Which agents; what is not given does not filter."""

    ids: Sequence[str] | None = None
    """One of these."""
    states: Sequence[AgentState] | None = None
    """In one of these states."""
    node_id: str | None = None
    """On this node."""


class CancelSessionInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A session to cancel."""

    id: str
    """The session."""
    expected_version: int | None = None
    """Refuse if the session is not at this version."""


class ChangeSessionInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A session to change."""

    id: str
    """The session, or one task of a job array as <array>_<index>."""
    expected_version: int | None = None
    """Refuse if the session is not at this version."""


class CommandInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What to run: either a list of arguments or a shell string."""

    argv: Sequence[str] | None = None
    """The program and its arguments; no shell is involved."""
    shell: str | None = None
    """A string for /bin/sh -c."""


class SlotAmountInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """How much of a slot each kernel needs."""

    slot: str
    """The slot's name, like `cpu` or `cuda.shares`."""
    amount: str
    """A decimal number, or a size with a binary suffix, like 32g."""


class NameValueInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A tag or an environment variable."""

    name: str
    """Its name."""
    value: str
    """Its value."""


class DependencyInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A session to wait for."""

    session_id: str
    """The session."""
    condition: DependencyCondition = DependencyCondition.AFTER_OK
    """What it must come to."""


class FallbackInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A smaller request to settle for after a wait; nothing makes the session grow back."""

    slots: Sequence[SlotAmountInput]
    """What each kernel needs then."""
    after_s: float
    """Seconds since the submission; longer than the one before it."""
    cluster_size: int | None = None
    """How many kernels; without it, as at first."""
    gpu_memory_gb: str | None = None
    """The least memory per device; without it, as before."""


class CreateSessionInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A session to submit."""

    command: CommandInput
    """What to run; at most 128 KiB."""
    slots: Sequence[SlotAmountInput]
    """What each kernel needs."""
    cluster_size: int = 1
    """How many kernels; all start or none."""
    gpu_memory_gb: str | None = None
    """The least memory per device, in 10^9 bytes; filters devices and is no slot."""
    environment: Sequence[NameValueInput] | None = None
    """Variables to add."""
    working_directory: str | None = None
    """Where to start; without it, in a folder of its own."""
    priority: str = "normal"
    """How urgent it is."""
    estimated_duration: float | None = None
    """Seconds, as you estimate."""
    time_limit: float | None = None
    """Seconds of wall time; then it is stopped."""
    max_retries: int = 0
    """How often it may be run again."""
    preemptible: bool = False
    """Whether it may be asked to make room."""
    depends_on: Sequence[DependencyInput] | None = None
    """Sessions to wait for."""
    name: str | None = None
    """What you call it."""
    run_id: str | None = None
    """Your own id for it; need not be unique."""
    tags: Sequence[NameValueInput] | None = None
    """Your labels."""
    idempotency_key: str | None = None
    """A retry with the same key and the same body answers with the first session."""
    project: str | None = None
    """The project to charge."""
    pool: str | None = None
    """The pool of agents to run in."""
    labels: Sequence[NameValueInput] | None = None
    """Labels that agents must have."""
    preferred_labels: Sequence[NameValueInput] | None = None
    """Labels of the agents to take where the whole session fits on such agents now."""
    models: Sequence[str] | None = None
    """Models that accelerators may be of, like *H100*; * and ? stand for any text."""
    preferred_models: Sequence[str] | None = None
    """Models to take where they fit now."""
    fallbacks: Sequence[FallbackInput] | None = None
    """Smaller requests to settle for, each smaller and later than the one before."""
    retries_own_failures: bool = False
    """Try again, within max_retries, also when the command itself fails."""
    checkpoint_signal: str | None = None
    """Sent first when it is to make room: a name or a number, like SIGUSR1."""
    grace: float | None = None
    """Seconds from that signal to the stop."""
    array: str | None = None
    """Submit a job array: its indices, like 0-99,105."""
    max_parallel: int | None = None
    """So many tasks of the array are active at one time at most."""
    held: bool = False
    """Hold it back until it is released."""
    local_name: str | None = None
    """Within create_sessions: how others of the batch name it in depends_on."""
    limits: SessionLimitsInput | None = None
    """What its kernels may use at most."""
    sandbox: SandboxProfile | None = None
    """Go only to agents that can put it into this sandbox; without it, as they are set."""
    secrets: Sequence[SecretUseInput] | None = None
    """Your secrets that it is given."""


class CreateSessionsInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Sessions to submit together: all of them or none."""

    sessions: Sequence[CreateSessionInput]
    """At most 1000. One may wait for others by their local_name; a circle is refused."""


class UpdateSessionPriorityInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A session that gets another priority."""

    id: str
    """The session."""
    priority: str
    """The new priority."""
    expected_version: int | None = None
    """Refuse if the session is not at this version."""
