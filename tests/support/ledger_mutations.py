"""A call of every mutation, in an order in which each changes something, and the event that it has to leave."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

WORK: Final = {"command": {"shell": "sleep 600"}, "slots": [{"slot": "cuda.device", "amount": "1"}]}
SESSION: Final = "<session>"
KEY: Final = "<key>"
AGENT: Final = "<agent>"


class Call(NamedTuple):
    """What is asked. Texts in angle brackets stand for the newest session, the newest key, and an agent."""

    mutation: str
    given: Mapping[str, Any]
    leaves: str
    """The kind of the event."""


def _about(id_: str = SESSION, **more: Any) -> dict[str, Any]:
    return {"input": {"id": id_, **more}}


CALLS: Final = (
    Call("create_user", {"input": {"name": "ada"}}, "user.created"),
    Call("update_user", {"input": {"name": "ada", "projects": ["vision"]}}, "user.changed"),
    Call("create_api_key", {"input": {"user": "ada", "name": "laptop"}}, "key.created"),
    Call("revoke_api_key", {"id": KEY}, "key.revoked"),
    Call("disable_user", {"input": {"name": "ada"}}, "user.disabled"),
    Call("update_policy", {"input": {"pools": [{"name": "default"}, {"name": "big"}]}}, "policy.changed"),
    Call("set_quota", {"input": {"scope": "user", "name": "ada", "weight": 2}}, "quota.changed"),
    Call("remove_quota", {"input": {"scope": "user", "name": "ada"}}, "quota.removed"),
    Call("drain_agent", _about(AGENT, note="new fan"), "agent.draining"),
    Call("resume_agent", {"id": AGENT}, "agent.resumed"),
    Call("set_agent_schedulable", _about(AGENT, schedulable=False), "agent.schedulable_changed"),
    Call("label_agent", _about(AGENT, labels=[{"name": "rack", "value": "7"}]), "agent.labelled"),
    Call("assign_agent_pool", {"id": AGENT, "pool": "big"}, "agent.pool_assigned"),
    Call("copy_database", {}, "action.database_copied"),
    Call("rescan_gpu_alloc_maps", {"agent_id": AGENT}, "action.gpu_maps_rescanned"),
    Call("set_notice_rule", {"input": {"rule": "agent_lost", "for_s": 7}}, "notice_rule.changed"),
    Call("mute_notice_rule", {"input": {"rule": "agent_lost", "seconds": 60}}, "notice_rule.muted"),
    Call("send_test_notice", {"receiver": "hook"}, "delivery.queued"),
    Call("set_notice_preferences", {"input": {"notify": []}}, "subscriber.changed"),
    Call("set_secret", {"name": "token", "value": "hush"}, "secrets.set"),
    Call("delete_secret", {"name": "token"}, "secrets.deleted"),
    Call("allocate_gpus", {"input": {"job_id": "of-mine"}}, "session.queued"),
    Call("release_gpus", {"job_id": "of-mine"}, "lease.released"),
    Call("orchestrator_stop", {"note": "new switch"}, "orchestration.stopped"),
    Call("create_sessions", {"input": {"sessions": [{**WORK, "held": True}]}}, "session.held"),
    Call("create_session", {"input": WORK}, "session.queued"),
    Call("update_session_priority", _about(priority="low"), "session.priority_changed"),
    Call("hold_session", _about(), "session.held"),
    Call("release_session", _about(), "session.released"),
    Call("cancel_session", _about(), "session.canceled"),
    Call("retry_session", _about(), "session.retried"),
    Call("orchestrator_start", {}, "orchestration.started"),
)

ELSEWHERE: Final = {"release_lost_agent": "needs an agent that is lost; see test_ledger_actions.py"}
"""Why a mutation has no call, and what holds its event instead."""
