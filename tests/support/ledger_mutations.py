"""A call of every mutation, in an order where each one changes something, and the event it must leave."""

import time
from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

WORK: Final = {"command": {"shell": "sleep 600"}, "slots": [{"slot": "cuda.device", "amount": "1"}]}
SESSION: Final = "<session>"
KEY: Final = "<key>"
AGENT: Final = "<agent>"
BACKTEST: Final = "<backtest>"
_PRIORITY: Final = "session.priority_changed"


class Call(NamedTuple):
    """The call. Texts in angle brackets stand for the newest session, the newest key, and an agent."""

    mutation: str
    given: Mapping[str, Any]
    leaves: str
    """The kind of the event."""


def _about(id_: str = SESSION, **more: Any) -> dict[str, Any]:
    return {"input": {"id": id_, **more}}


def _hours(later: int) -> str:
    return (datetime.fromtimestamp(time.time(), UTC) + timedelta(hours=later)).isoformat()


def _base64(text: str) -> str:
    return b64encode(text.encode()).decode()


def _window(hours: int) -> dict[str, Any]:
    return {"name": "slot", "starts_at": _hours(1), "ends_at": _hours(hours)}


CALLS: Final = (
    Call("create_user", {"input": {"name": "ada"}}, "user.created"),
    Call("update_user", {"input": {"name": "ada", "projects": ["vision"]}}, "user.changed"),
    Call("create_api_key", {"input": {"user": "ada", "name": "laptop"}}, "key.created"),
    Call("revoke_api_key", {"id": KEY}, "key.revoked"),
    Call("disable_user", {"input": {"name": "ada"}}, "user.disabled"),
    Call("update_policy", {"input": {"pools": [{"name": "default"}, {"name": "big"}]}}, "policy.changed"),
    Call("set_quota", {"input": {"scope": "project", "name": "old", "weight": 2}}, "quota.changed"),
    Call("remove_quota", {"input": {"scope": "project", "name": "old"}}, "quota.removed"),
    Call("delete_project", {"name": "old"}, "action.project_deleted"),
    Call("drain_agent", _about(AGENT, note="new fan"), "agent.draining"),
    Call("resume_agent", {"id": AGENT}, "agent.resumed"),
    Call("set_agent_schedulable", _about(AGENT, schedulable=False), "agent.schedulable_changed"),
    Call("label_agent", _about(AGENT, labels=[{"name": "rack", "value": "7"}]), "agent.labelled"),
    Call("assign_agent_pool", {"id": AGENT, "pool": "big"}, "agent.pool_assigned"),
    Call("copy_database", {}, "action.database_copied"),
    Call("start_backtest", {"input": {"runs": [{"policy": {"order": "fcfs"}}]}}, "action.backtest_started"),
    Call("cancel_backtest", {"id": BACKTEST}, "action.backtest_canceled"),
    Call("start_tuning", {"input": {}}, "action.tuning_started"),
    Call("rescan_gpu_alloc_maps", {"agent_id": AGENT}, "action.gpu_maps_rescanned"),
    Call("set_notice_rule", {"input": {"rule": "agent_lost", "for_s": 7}}, "notice_rule.changed"),
    Call("mute_notice_rule", {"input": {"rule": "agent_lost", "seconds": 60}}, "notice_rule.muted"),
    Call("send_test_notice", {"receiver": "hook"}, "delivery.queued"),
    Call("set_notice_preferences", {"input": {"notify": []}}, "subscriber.changed"),
    Call("renew_calendar_feed", {}, "key.feed_renewed"),
    Call("set_secret", {"name": "token", "value": "hush"}, "secrets.set"),
    Call("delete_secret", {"name": "token"}, "secrets.deleted"),
    Call("save_session_template", {"project": "default", "name": "t", "fields": "{}"}, "action.template_saved"),
    Call("delete_session_template", {"project": "default", "name": "t"}, "action.template_deleted"),
    Call("allocate_gpus", {"input": {"job_id": "of-mine"}}, "session.queued"),
    Call("release_gpus", {"job_id": "of-mine"}, "lease.released"),
    Call("reserve", {"input": _window(2)}, "booking.requested"),
    Call(
        "import_reservations",
        {
            "input": {
                "file_name": "a.csv",
                "content": b64encode(f"start,end\n{_hours(5)},{_hours(6)}".encode()).decode(),
            }
        },
        "booking.requested",
    ),
    Call("extend_reservation", {"name": "slot", "ends_at": _hours(3)}, "booking.extension_requested"),
    Call("give_back_reservation", {"name": "slot"}, "booking.canceled"),
    Call("orchestrator_stop", {"note": "new switch"}, "orchestration.stopped"),
    Call("create_sessions", {"input": {"sessions": [{**WORK, "held": True}]}}, "session.held"),
    Call("create_session", {"input": WORK}, "session.queued"),
    Call("update_session_priority", _about(priority="low"), _PRIORITY),
    Call("update_session_priorities", {"input": {"ids": [SESSION], "priority": "normal"}}, _PRIORITY),
    Call("update_session", _about(time_limit=3600), "session.request_changed"),
    Call("hold_session", _about(), "session.held"),
    Call("release_session", _about(), "session.released"),
    Call("change_sessions", {"input": {"ids": [SESSION], "action": "set_priority", "priority": "low"}}, _PRIORITY),
    Call("cancel_session", _about(), "session.canceled"),
    Call("retry_session", _about(), "session.retried"),
    Call("orchestrator_start", {}, "orchestration.started"),
)

ELSEWHERE: Final = {
    "apply_tuning": "needs a tuning that found a better policy; see test_service_tunings.py",
    "release_lost_agent": "needs an agent that is lost; see test_ledger_actions.py",
    "keep_session": "needs a session that does not use its GPUs; see test_service_idle_process.py",
    "extend_session": "needs a session that runs with a time limit; see test_service_extensions.py",
}
"""Why a mutation has no call, and which test covers its event."""
