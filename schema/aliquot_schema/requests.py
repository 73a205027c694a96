"""Request types: callers, filters, sort orders, pages and new sessions. Nothing in them is validated yet."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from msgspec import Struct, field

from aliquot_schema.enums import DescribedStr
from aliquot_schema.identity.accounts import KEY_PREFIX
from aliquot_schema.identity.accounts import Role as Role
from aliquot_schema.ids import KeyId, ProjectId, UserId
from aliquot_schema.sessions import Priority
from aliquot_schema.states import AgentState, SessionState
from aliquot_schema.views.admin import NewQuota
from aliquot_schema.views.backtests import TuneApply
from aliquot_schema.views.sessions import SessionView


class SessionOrder(DescribedStr):
    """Sort order of sessions.

    Equal values are ordered by submission time, in the same direction. Sessions without a value always come last.
    """

    NEWEST = "newest", "The newest submission first."
    OLDEST = "oldest", "The oldest submission first."
    PRIORITY_DESC = "priority_desc", "The highest priority first."
    PRIORITY_ASC = "priority_asc", "The lowest priority first."
    STARTED_DESC = "started_desc", "The latest start first."
    STARTED_ASC = "started_asc", "The earliest start first."
    ENDED_DESC = "ended_desc", "The latest end first."
    ENDED_ASC = "ended_asc", "The earliest end first."
    GPUS_DESC = "gpus_desc", "The largest number of GPUs first."
    GPUS_ASC = "gpus_asc", "The smallest number of GPUs first."
    NAME_DESC = "name_desc", "From Z to A."
    NAME_ASC = "name_asc", "From A to Z."


class SessionAction(DescribedStr):
    """An action on several sessions."""

    CANCEL = "cancel", "As `cancel_session`."
    HOLD = "hold", "As `hold_session`."
    RELEASE = "release", "As `release_session`."
    KEEP = "keep", "As `keep_session`."
    RETRY = "retry", "As `retry_session`."
    SET_PRIORITY = "set_priority", "As `update_session_priority`."


class TimeRange(Struct, frozen=True, kw_only=True):
    """A closed interval of aware times; None = unbounded."""

    since: datetime | None = None
    until: datetime | None = None


class SessionFilter(Struct, frozen=True, kw_only=True):
    """Filter of sessions. Empty tuples and None match everything."""

    ids: tuple[str, ...] = ()
    states: tuple[SessionState, ...] = ()
    owners: tuple[str, ...] = ()
    run_id: str | None = None
    name: str | None = None
    projects: tuple[str, ...] = ()
    search: str | None = None
    """Substring of the name or the id; case-insensitive for A to Z."""
    pools: tuple[str, ...] = ()
    priorities: tuple[Priority, ...] = ()
    array_id: str | None = None
    """Tasks of this job array."""
    tags: tuple[str, ...] = ()
    """Tags that it must all have: `name`, or `name=value`."""
    queued_at: TimeRange | None = None
    started_at: TimeRange | None = None
    """Any bound excludes sessions that have not started."""
    ended_at: TimeRange | None = None
    exit_codes: tuple[int, ...] = ()
    failures: tuple[str, ...] = ()
    """Codes of `Failure`."""
    agents: tuple[str, ...] = ()
    """Agents of the newest attempt."""
    nodes: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()


ALL_SESSIONS: Final = SessionFilter()


class Caller(Struct, frozen=True, kw_only=True):
    """The authenticated sender of a request."""

    user: UserId
    request_id: str
    role: Role
    projects: tuple[ProjectId, ...] = ()
    """Projects the caller is a member of; see `accounts.User`."""
    key_id: KeyId | None = None
    """The key used; None = the server's own token."""
    sign_in_id: KeyId | None = None
    """The browser sign-in whose cookie was sent; None = no cookie was used."""
    own_role: Role | None = None
    """The role of the user, where the scope of the key allows less; else None."""

    def scope_hint(self, least: Role) -> str:
        """Addition to a refusal if the user has at least this role, and only the scope of the key prevents it."""
        if self.own_role is None or self.own_role < least:
            return ""
        return (
            f"; your role {self.own_role.name.lower()} allows it, but the scope of this key does not: use another key"
        )

    @property
    def actor(self) -> str:
        """Who the event log names: `<user>`, or `<user>/<key>` for a request with an API key."""
        is_named = self.key_id is not None and self.key_id.startswith(KEY_PREFIX)
        return f"{self.user}/{self.key_id}" if is_named else self.user


class PageRequest(Struct, frozen=True, kw_only=True):
    """Position and size of one page."""

    first: int
    after: str | None = None


class AgentOrder(DescribedStr):
    """Sort order of agents; natural order, node2 before node10."""

    ID = "id", "By id."
    HOSTNAME = "hostname", "By the host name of the node."


class AgentFilter(Struct, frozen=True, kw_only=True):
    """Filter of agents. Empty tuples match everything."""

    ids: tuple[str, ...] = ()
    states: tuple[AgentState, ...] = ()
    node_id: str | None = None


class NewFallback(Struct, frozen=True, kw_only=True):
    """A smaller request to apply after a wait, not validated."""

    slots: Sequence[tuple[str, str]]
    after_s: float
    cluster_size: int | None = None
    """None = as in the original request."""
    gpu_memory_gb: str | None = None


class NewSession(Struct, frozen=True, kw_only=True):
    """A session to submit, not validated; amounts are text."""

    argv: tuple[str, ...] | None
    shell: str | None
    slots: Sequence[tuple[str, str]]
    cluster_size: int = 1
    cluster_size_min: int | None = None
    """None = as `cluster_size`."""
    gpu_memory_gb: str | None = None
    environment: Sequence[tuple[str, str]] = ()
    working_directory: str | None = None
    priority: str = "normal"
    estimated_duration: float | None = None
    time_limit: float | None = None
    max_retries: int = 0
    preemptible: bool = False
    depends_on: Sequence[tuple[str, str]] = ()
    """(session id, condition)."""
    name: str | None = None
    run_id: str | None = None
    tags: Sequence[tuple[str, str]] = ()
    idempotency_key: str | None = None
    project: str | None = None
    pool: str | None = None
    labels: Sequence[tuple[str, str]] = ()
    preferred_labels: Sequence[tuple[str, str]] = ()
    models: Sequence[str] = ()
    preferred_models: Sequence[str] = ()
    topology: str = "prefer"
    """See `sessions.Topology`."""
    fallbacks: Sequence[NewFallback] = ()
    retries_own_failures: bool = False
    metrics: Sequence[tuple[str, str]] = ()
    """Names and patterns of metrics in its output."""
    checkpoint_signal: str | None = None
    """A name or a number: `SIGUSR1`, `10`."""
    checkpoint_every: float | None = None
    """Seconds."""
    grace: float | None = None
    """Seconds."""
    array: str | None = None
    """Indices of a job array: `0-99,105`."""
    max_parallel: int | None = None
    held: bool = False
    """Submit it in state `held`."""
    local_name: str | None = None
    """Within `create_sessions`: its name in `depends_on` of other sessions of the batch."""
    external_lease: float | None = None
    """Lease time in seconds of an external allocation, see `SessionSpec.outside_ms`; None = an ordinary session."""
    processes: int | None = None
    """Limit on processes and threads per kernel."""
    open_files: int | None = None
    """Limit on open files per process."""
    sandbox: str | None = None
    """The sandbox profile it requires."""
    secrets: Sequence[tuple[str, str | None, str | None]] = ()
    """(name, variable, file)."""
    booking: str | None = None
    """Name or id of the booking whose devices it uses."""
    apps: Sequence[tuple[str, int]] = ()
    """(name, port), see `SessionSpec.apps`."""
    workspace: str | None = None
    """Id of a stored workspace of the caller."""
    activates: str | None = None
    """See `SessionSpec.activates`."""
    image: str | None = None
    shares_access: bool = False
    preflight: Sequence[str] | None = None
    """Command of the check before its own; empty = the agent's own check, None = no check."""
    preflight_limit: float | None = None
    """Seconds; None = the default."""
    unsupported: Mapping[str, object] = field(default_factory=dict)
    """Fields that were set but are not implemented."""


class SessionAmendment(Struct, frozen=True, kw_only=True):
    """Changes of a waiting session's request, not validated; None = unchanged."""

    slots: Sequence[tuple[str, str]] | None = None
    """Amounts per kernel. New accelerators replace all earlier ones, and the CPUs and memory that came with them
    follow; other amounts that are not named stay. An amount of 0 is not requested any more."""
    cluster_size: int | None = None
    time_limit: float | None = None
    """Seconds."""
    preemptible: bool | None = None
    priority: str | None = None
    project: str | None = None
    pool: str | None = None
    models: Sequence[str] | None = None
    """Empty = any."""


class NewBooking(Struct, frozen=True, kw_only=True):
    """A booking to request, not validated."""

    name: str
    starts_at: datetime
    ends_at: datetime
    gpus: int | None = None
    """Whole GPUs; None = as many as `devices` names, or none for maintenance."""
    models: Sequence[str] = ()
    devices: Sequence[str] = ()
    """Named GPUs, by device id, or as `<node>/<device>`."""
    nodes: Sequence[str] = ()
    """Nodes or agents to put under maintenance; for operators."""
    project: str | None = None
    pool: str | None = None
    no_show_after: float | None = None
    """Seconds; None = the default."""
    repeats: str | None = None
    """A recurrence rule of RFC 5545 like `FREQ=WEEKLY;BYDAY=TU;UNTIL=20270301`; None = one window."""
    time_zone: str | None = None
    """Name of the zone in which the rule keeps the time of day, like `Europe/Berlin`; None = UTC."""


class BookingFile(Struct, frozen=True, kw_only=True):
    """A spreadsheet or calendar of bookings, not read yet."""

    file_name: str
    """Its ending says what it is: `.csv`, `.tsv`, `.xlsx` or `.ics`."""
    content: bytes
    time_zone: str | None = None
    """Zone of times without one, like `Europe/Berlin`; None = UTC."""
    project: str | None = None
    """Of rows that name none."""
    pool: str | None = None
    dry_run: bool = False


class WhatIf(Struct, frozen=True, kw_only=True):
    """Changes of the present state, not validated; all that are given hold together."""

    session: NewSession | None = None
    """One more session."""
    drain: str | None = None
    """An agent that takes nothing new."""
    evict: bool = False
    """Whether the sessions on the drained agent are preempted and queued again."""
    policy: Mapping[str, object] | None = None
    """Changed fields of the policy, as for `update_policy`."""
    like: str | None = None
    """An agent of which there are more."""
    count: int = 1
    """How many more."""


class SessionChanged(Struct, frozen=True, kw_only=True):
    """Result of a mutation of one session."""

    session: SessionView
    revision: int
    created: bool = False
    """False when the idempotency key matched an existing session."""


class SessionsAction(Struct, frozen=True, kw_only=True):
    """An action on several sessions, each carried out or refused by itself."""

    ids: tuple[str, ...]
    action: SessionAction
    priority: str | None = None
    """Of `SET_PRIORITY`."""
    from_checkpoint: bool = False
    """Of `RETRY`."""


class SessionOutcome(Struct, frozen=True, kw_only=True):
    """The outcome for one session of a `SessionsAction`: the session, or the error that refused it."""

    id: str
    """As in the request."""
    session: SessionView | None = None
    code: str | None = None
    message: str | None = None


class SessionOutcomes(Struct, frozen=True, kw_only=True):
    """Result of a `SessionsAction`."""

    results: tuple[SessionOutcome, ...]
    """In the order of the request."""
    refused: int
    """How many were refused."""
    revision: int


class SessionsChanged(Struct, frozen=True, kw_only=True):
    """Result of a mutation of several sessions."""

    changed: int
    """How many of them were not like that before."""
    revision: int


class SessionsCreated(Struct, frozen=True, kw_only=True):
    """Result of `create_sessions`."""

    results: tuple[SessionChanged, ...]
    """In the order of the request."""
    revision: int


class NewBacktestRun(Struct, frozen=True, kw_only=True):
    """One run of a backtest beside the policies of the time: with another policy, other quotas or another cluster."""

    label: str | None = None
    policy: Mapping[str, Any] | None = None
    """Changes of the present policy, named as in `PolicyDocument`; None = the policies of the time."""
    like: str | None = None
    """An agent; agents like it are added."""
    count: int = 1
    """How many."""
    without: tuple[str, ...] = ()
    """Agents to leave out."""
    quotas: tuple[NewQuota, ...] = ()
    """Quotas that hold all the time, instead of those of the same subjects."""


class NewBacktest(Struct, frozen=True, kw_only=True):
    """A backtest to start."""

    runs: tuple[NewBacktestRun, ...]
    since: datetime | None = None
    """None = seven days before `until`."""
    until: datetime | None = None
    """None = now."""


class NewTuning(Struct, frozen=True, kw_only=True):
    """A tuning to start, on 28 days until now by default. At most `tries` policies are tried."""

    since: datetime | None = None
    split: datetime | None = None
    """End of the part that is searched; None = two thirds of the time."""
    until: datetime | None = None
    tries: int = 24
    seed: int = 0
    apply: TuneApply = TuneApply.MANUAL
