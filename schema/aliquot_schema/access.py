"""Access: who may ask for each root field of the schema, and who sees each field of what belongs to somebody.

The use cases decide; this says what they are to decide. A test asks every field as everybody and compares, so that a
new field without a line here fails.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from aliquot_schema.privacy import KERNEL_FIELDS, SESSION_FIELDS, Sight
from aliquot_schema.roles import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Who may ask. Without a key that holds, nobody may ask anything."""

    least: Role
    """Of those who ask about nobody's, or about what is their own. Sessions of a project are its members' own, too, but
    for what they print and what they run."""
    others: Role | None = None
    """The least role of those who ask about what is somebody else's; None = the same."""

    def allows(self, role: Role, *, own: bool) -> bool:
        """Whether somebody of a role may."""
        return role >= (self.least if own or self.others is None else self.others)


LOOK: Final = Access(least=Role.VIEWER)
SUBMIT: Final = Access(least=Role.USER)
CHANGE: Final = Access(least=Role.USER, others=Role.OPERATOR)
MEMBERS: Final = Access(least=Role.VIEWER, others=Role.OPERATOR)
"""Or about what is of a project that they are members of."""
OPERATE: Final = Access(least=Role.OPERATOR)
ADMINISTER: Final = Access(least=Role.ADMIN)
OWN: Final = Access(least=Role.VIEWER, others=Role.ADMIN)

ROOTS: Final[Mapping[str, Access]] = {
    **dict.fromkeys(
        (
            "Query.agent",
            "Query.agents",
            "Query.alerts",
            "Query.cluster",
            "Query.device_history",
            "Query.me",
            "Query.notice_preferences",
            "Query.orchestrator",
            "Query.policy",
            "Query.pools",
            "Query.projects",
            "Query.queue",
            "Query.queue_history",
            "Query.queue_statistics",
            "Query.quotas",
            "Query.secrets",
            "Query.session",
            "Query.session_steps",
            "Query.sessions",
            "Query.usage",
            "Query.usage_history",
            "Subscription.device_updates",
            "Mutation.set_notice_preferences",
            "Subscription.queue_updates",
            "Subscription.session_updates",
        ),
        LOOK,
    ),
    **dict.fromkeys(("Query.preview_session", "Mutation.create_session", "Mutation.create_sessions"), SUBMIT),
    **dict.fromkeys(("Mutation.set_secret", "Mutation.delete_secret"), SUBMIT),
    **dict.fromkeys(("Mutation.allocate_gpus", "Mutation.release_gpus"), SUBMIT),
    "Query.session_history": MEMBERS,
    **dict.fromkeys(
        (
            "Mutation.cancel_session",
            "Mutation.hold_session",
            "Mutation.release_session",
            "Mutation.retry_session",
            "Mutation.update_session_priority",
        ),
        CHANGE,
    ),
    **dict.fromkeys(("Query.api_keys", "Mutation.revoke_api_key"), OWN),
    **dict.fromkeys(("Query.session_log", "Subscription.session_logs"), OWN),
    **dict.fromkeys(
        (
            "Query.audit",
            "Query.doctor",
            "Query.held_by",
            "Query.ledger_passes",
            "Query.notice_rules",
            "Query.users",
            "Mutation.assign_agent_pool",
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
            "Mutation.update_policy",
            "Subscription.events",
        ),
        OPERATE,
    ),
    **dict.fromkeys(
        (
            "Mutation.create_api_key",
            "Mutation.create_user",
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
"""By `<root type>.<field>`."""

REST: Final[Mapping[str, Access]] = {
    **dict.fromkeys(
        (
            "gpu_status",
            "orchestrator_policies",
            "orchestrator_status",
            "queue",
            "queue_statistics",
            "sessions",
        ),
        LOOK,
    ),
    **dict.fromkeys(("gpu_allocate", "gpu_release", "queue_submit"), SUBMIT),
    **dict.fromkeys(("queue_cancel", "queue_priority"), CHANGE),
    **dict.fromkeys(("orchestrator_start", "orchestrator_stop", "orchestrator_update_policies"), OPERATE),
}
"""By the operation's name in the OpenAPI document."""

_OF_EVERYBODY: Final[Mapping[str, str]] = {
    "Session": "id version owner project pool name slots cluster_size gpu_memory_gb estimated_duration time_limit "
    "max_retries retry_count preemptible depends_on priority state attempt queue_position waits kernels holds_devices "
    "queued_at scheduled_at started_at ended_at retries_own_failures checkpoint_signal grace labels preferred_labels "
    "models preferred_models fallbacks fallback_level preemptions preemption held_by array_id array_index tasks "
    "order_estimate reserve_until expected_start hidden requested_gpus requested_memory_gb allocated_gpus "
    "allocation_time estimated_start_time estimated_wait_time scheduling_policy",
    "Kernel": "id session_id attempt rank agent_id state resource_spec holds_devices granted_at started_at ended_at",
}

FIELDS: Final[Mapping[str, Mapping[str, Sight]]] = {
    name: {
        **dict.fromkeys(_OF_EVERYBODY[name].split(), Sight.EVERYBODY),
        **{field: least for least, some in hidden.items() for field in some},
    }
    for name, hidden in (("Session", SESSION_FIELDS), ("Kernel", KERNEL_FIELDS))
}
"""By type and field: who sees what is there; see `privacy`."""
