"""Access rights: the role each root field and REST operation requires, and the visibility of each session field.

The use cases enforce the rights; this module declares them. A test requests every field with every role and compares,
so a new field needs an entry here.

Who requests how much, where it runs and why it waits is visible to every user, because the queue is shared. The command
and its results are visible to the project's members or to the owner only.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from msgspec import Struct

from aliquot_schema.identity.accounts import Role


class Visibility(IntEnum):
    """Level of access to the fields of a session; each level includes those before it."""

    EVERYBODY = 0
    """Every authenticated user."""
    MEMBER = 1
    """Members of the session's project, and operators."""
    OWNER = 2
    """The session's owner, and admins."""


SESSION_FIELDS: Final[Mapping[Visibility, Mapping[str, object]]] = {
    Visibility.OWNER: {"command": (), "environment": (), "preflight": None},
    Visibility.MEMBER: {
        "services": (),
        "working_directory": None,
        "workspace": None,
        "activates": None,
        "image": None,
        "shares_access": False,
        "run_id": None,
        "tags": (),
        "exit_code": None,
        "signal": None,
        "failure": None,
        "work": None,
        "idle": None,
        "room_made": None,
    },
}
"""Restricted fields of a session by required level, with the value shown to callers below it."""

KERNEL_FIELDS: Final[Mapping[Visibility, Mapping[str, object]]] = {
    Visibility.OWNER: {},
    Visibility.MEMBER: {"exit_code": None, "signal": None, "timed_out": False, "message": None},
}
"""Restricted fields of a session's kernels, likewise."""


def _hidden_at(level: Visibility, fields: Mapping[Visibility, Mapping[str, object]]) -> dict[str, object]:
    """Fields that a caller at a level may not see, with the value shown instead."""
    return {name: value for required, hidden in fields.items() if level < required for name, value in hidden.items()}


HIDDEN: Final = {level: _hidden_at(level, SESSION_FIELDS) for level in Visibility}
"""Replacement values of a session's hidden fields, by the caller's level."""
KERNEL_HIDDEN: Final = {level: _hidden_at(level, KERNEL_FIELDS) for level in Visibility}


class Access(Struct, frozen=True, kw_only=True):
    """The role an operation requires. Every operation requires authentication."""

    least: Role
    """Required for shared objects and for the caller's own. A project's sessions count as its members' own, except for
    their output and their commands."""
    others: Role | None = None
    """Required for objects of other users; None = `least`."""

    def allows(self, role: Role, *, own: bool) -> bool:
        """Whether a role is sufficient."""
        return role >= (self.least if own or self.others is None else self.others)


READ: Final = Access(least=Role.VIEWER)
SUBMIT: Final = Access(least=Role.USER)
CHANGE: Final = Access(least=Role.USER, others=Role.OPERATOR)
MEMBERS: Final = Access(least=Role.VIEWER, others=Role.OPERATOR)
"""The caller's own objects, and those of projects they are a member of; operators: all."""
OPERATE: Final = Access(least=Role.OPERATOR)
ADMINISTER: Final = Access(least=Role.ADMIN)
OWNER_ONLY: Final = Access(least=Role.VIEWER, others=Role.ADMIN)

ROOTS: Final[Mapping[str, Access]] = {
    **dict.fromkeys(
        (
            "Query.agent",
            "Query.agents",
            "Query.alerts",
            "Query.cluster",
            "Query.device_history",
            "Query.fair_shares",
            "Query.forecast_accuracy",
            "Query.device_timeline",
            "Query.idle_behind_quotas",
            "Query.observed_gpus",
            "Query.observed_week",
            "Query.me",
            "Query.notice_preferences",
            "Query.orchestrator",
            "Query.policy",
            "Query.pools",
            "Query.projects",
            "Query.queue",
            "Query.queue_history",
            "Query.queue_statistics",
            "Query.quota_use",
            "Query.quotas",
            "Query.reservations",
            "Query.secrets",
            "Query.session",
            "Query.session_steps",
            "Query.session_templates",
            "Query.session_why",
            "Query.sessions",
            "Query.statement",
            "Query.statement_document",
            "Query.statements",
            "Query.usage",
            "Query.usage_history",
            "Query.what_if",
            "Subscription.device_updates",
            "Mutation.set_notice_preferences",
            "Subscription.queue_updates",
            "Subscription.session_updates",
        ),
        READ,
    ),
    **dict.fromkeys(
        (
            "Query.preview_forecasts",
            "Query.preview_session",
            "Query.reservation_effect",
            "Mutation.create_session",
            "Mutation.create_sessions",
        ),
        SUBMIT,
    ),
    **dict.fromkeys(("Mutation.set_secret", "Mutation.delete_secret"), SUBMIT),
    "Mutation.renew_calendar_feed": READ,
    **dict.fromkeys(("Mutation.save_session_template", "Mutation.delete_session_template"), SUBMIT),
    **dict.fromkeys(
        ("Mutation.allocate_gpus", "Mutation.import_reservations", "Mutation.release_gpus", "Mutation.reserve"), SUBMIT
    ),
    **dict.fromkeys(("Mutation.extend_reservation", "Mutation.give_back_reservation"), CHANGE),
    **dict.fromkeys(("Query.session_history", "Query.session_stats"), MEMBERS),
    **dict.fromkeys(
        (
            "Mutation.cancel_session",
            "Mutation.change_sessions",
            "Mutation.extend_session",
            "Mutation.hold_session",
            "Mutation.keep_session",
            "Mutation.release_session",
            "Mutation.retry_session",
            "Mutation.update_session",
            "Mutation.update_session_priorities",
            "Mutation.update_session_priority",
        ),
        CHANGE,
    ),
    **dict.fromkeys(("Query.api_keys", "Mutation.revoke_api_key"), OWNER_ONLY),
    **dict.fromkeys(
        (
            "Query.array_metrics",
            "Query.session_files",
            "Query.session_log",
            "Query.session_metrics",
            "Subscription.session_logs",
        ),
        OWNER_ONLY,
    ),
    **dict.fromkeys(
        (
            "Query.audit",
            "Query.backtest",
            "Query.backtests",
            "Query.device_holdings",
            "Query.doctor",
            "Query.held_by",
            "Query.ledger_passes",
            "Query.notice_rules",
            "Query.record_check",
            "Query.users",
            "Mutation.apply_tuning",
            "Mutation.assign_agent_pool",
            "Mutation.cancel_backtest",
            "Mutation.copy_database",
            "Mutation.drain_agent",
            "Mutation.label_agent",
            "Mutation.mute_notice_rule",
            "Mutation.orchestrator_start",
            "Mutation.orchestrator_stop",
            "Mutation.release_lost_agent",
            "Mutation.remove_quota",
            "Mutation.rescan_gpu_alloc_maps",
            "Mutation.resume_agent",
            "Mutation.set_agent_schedulable",
            "Mutation.set_quota",
            "Mutation.start_backtest",
            "Mutation.start_tuning",
            "Mutation.update_policy",
            "Subscription.events",
        ),
        OPERATE,
    ),
    **dict.fromkeys(
        (
            "Mutation.create_api_key",
            "Mutation.create_user",
            "Mutation.delete_project",
            "Query.deliveries",
            "Query.notice_receivers",
            "Mutation.disable_user",
            "Mutation.send_test_notice",
            "Mutation.set_notice_rule",
            "Mutation.update_user",
        ),
        ADMINISTER,
    ),
}
"""Required rights by `<root type>.<field>`."""

REST: Final[Mapping[str, Access]] = {
    **dict.fromkeys(
        (
            "forecast",
            "forecast_accuracy",
            "gpu_status",
            "orchestrator_policies",
            "orchestrator_status",
            "orchestrator_what_if",
            "queue",
            "queue_statistics",
            "queue_why",
            "reservations",
            "sessions",
            "statement",
            "statement_csv",
            "statements",
        ),
        READ,
    ),
    **dict.fromkeys(("gpu_allocate", "gpu_release", "queue_submit", "reserve"), SUBMIT),
    "session_stats": MEMBERS,
    "session_files": OWNER_ONLY,
    **dict.fromkeys(("queue_cancel", "queue_change", "queue_extend", "queue_priority"), CHANGE),
    **dict.fromkeys(("extend_reservation", "give_back_reservation"), CHANGE),
    **dict.fromkeys(("orchestrator_start", "orchestrator_stop", "orchestrator_update_policies"), OPERATE),
}
"""Required rights by the operation's name in the OpenAPI document."""

_UNRESTRICTED: Final[Mapping[str, str]] = {
    "Session": "id version owner project pool name slots cluster_size cluster_size_min gpu_memory_gb "
    "estimated_duration time_limit max_retries retry_count preemptible depends_on priority state attempt "
    "queue_position waits kernels holds_devices "
    "queued_at scheduled_at started_at ended_at retries_own_failures checkpoint_signal checkpoint_every grace labels "
    "preferred_labels models preferred_models topology fallbacks fallback_level preemptions preemption held_by "
    "array_id array_index tasks order_estimate order_explanation reserve_until expected_start forecast hidden "
    "requested_gpus requested_memory_gb allocated_gpus allocation_time estimated_start_time estimated_wait_time "
    "scheduling_policy pull booking",
    "Kernel": "id session_id attempt rank agent_id state resource_spec holds_devices granted_at started_at ended_at",
}

FIELDS: Final[Mapping[str, Mapping[str, Visibility]]] = {
    name: {
        **dict.fromkeys(_UNRESTRICTED[name].split(), Visibility.EVERYBODY),
        **{field: least for least, some in hidden.items() for field in some},
    }
    for name, hidden in (("Session", SESSION_FIELDS), ("Kernel", KERNEL_FIELDS))
}
"""Required level by type and field."""
