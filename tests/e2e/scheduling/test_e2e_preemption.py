"""Preemption: by a higher priority, and by the owner of lent quota."""

from datetime import datetime

import pytest

from e2e_operator import Operator
from e2e_scheduling import SchedulingHarness

pytestmark = pytest.mark.anyio

SAVES = """
[ -e "$CHECKPOINT_DIR/step" ] && { cp "$CHECKPOINT_DIR/step" %(found)s; exit 0; }
trap 'echo 41 > "$CHECKPOINT_DIR/step"' USR1
echo ready > %(ready)s
while :; do sleep 0.05; done
"""
FINISHES = """
trap 'trap "" USR1; while [ ! -e %(go)s ]; do sleep 0.05; done; exit 0' USR1
echo ready > %(ready)s
while :; do sleep 0.05; done
"""
WILLING = {"preempt": "preemptible", "run_min": 0}
LENT = {"priority": "low", "preemptible": True}


async def test_a_preempted_session_saves_its_work_and_resumes_from_it(
    harness: SchedulingHarness, operator: Operator
) -> None:
    await operator.policy(order="priority", preemption=WILLING)
    shell = SAVES % {"found": harness.mark("found"), "ready": harness.mark("ready")}
    victim = await harness.submit_running("victim", shell=shell, checkpoint_signal="SIGUSR1", grace=1.0, **LENT)
    await harness.wait_for_mark("ready")
    urgent = await harness.submit_running("urgent", devices="2", priority="high")
    asked = (await harness.wait_for_state(victim, "queued"))["preemption"]
    assert (asked["cause"], asked["by_session"], asked["by_user"]) == (
        "priority",
        urgent,
        (await harness.view(urgent))["owner"],
    )
    at, until = (datetime.fromisoformat(asked[name]) for name in ("at", "until"))
    assert (until - at).total_seconds() == 1.0
    assert asked["lost_gpu_seconds"] >= 1.0
    harness.end("urgent")
    seen = await harness.wait_for_state(victim, "completed", "failed")
    assert (seen["state"], seen["attempt"], seen["preemptions"], seen["retry_count"]) == ("completed", 2, 1, 0)
    assert harness.mark("found").read_text() == "41\n"
    course = await harness.updates_of(victim, last="session.completed")
    kinds = [one["kind"].removeprefix("session.") for one in course]
    first = kinds.index("preempting")
    assert kinds[first : first + 2] == ["preempting", "requeued"]
    receipts = [one["session"]["preemption"]["lost_gpu_seconds"] for one in course[first : first + 2]]
    assert receipts == [None, asked["lost_gpu_seconds"]]


async def test_a_preempted_session_that_succeeds_within_its_grace_is_completed(
    harness: SchedulingHarness, operator: Operator
) -> None:
    await operator.policy(order="priority", preemption=WILLING)
    shell = FINISHES % {"go": harness.mark("finish"), "ready": harness.mark("set")}
    victim = await harness.submit_running(
        "ends", devices="2", shell=shell, checkpoint_signal="SIGUSR1", grace=600, **LENT
    )
    await harness.wait_for_mark("set")
    urgent = await harness.submit("after", priority="critical")
    waits = await harness.wait_for_reason(urgent, "making_room")
    leaving = await harness.wait_for_state(victim, "preempting")
    assert (waits["waits"]["blocked_by"], waits["expected_start"]) == ([victim], leaving["preemption"]["until"])
    assert leaving["reserve_until"] == leaving["preemption"]["until"]
    harness.end("finish")
    seen = await harness.wait_for_state(victim, "completed", "queued")
    assert (seen["state"], seen["exit_code"], seen["preemptions"], seen["attempt"]) == ("completed", 0, 0, 1)
    await harness.wait_for_state(urgent, "running")


async def test_no_session_is_preempted_when_that_would_free_too_few_devices(
    harness: SchedulingHarness, operator: Operator
) -> None:
    await operator.policy(order="priority", preemption=WILLING)
    willing = await harness.submit_running("willing", **LENT)
    await harness.submit_running("unwilling", priority="low")
    urgent = await harness.submit("blocked", devices="2", priority="high")
    equal = await harness.submit("equal", priority="low")
    await harness.wait_for_reason(urgent, "insufficient")
    await harness.wait_for_session(equal, lambda seen: bool(seen["waits"]))
    seen = await harness.view(willing)
    assert (seen["state"], seen["preemption"]) == ("running", None)
    harness.end("unwilling")
    await harness.wait_for_state(urgent, "running")
    assert (await harness.wait_for_state(willing, "queued"))["preemption"]["by_session"] == urgent


async def test_a_quota_owner_preempts_sessions_that_use_its_lent_quota(
    harness: SchedulingHarness, operator: Operator
) -> None:
    await operator.policy(order="fcfs", preemption=WILLING)
    await operator.quota("project", "owners", own_slots={"cuda.device": "2"})
    await operator.quota("project", "guests")
    guests = [await harness.submit_running(f"guest-{number}", project="guests", preemptible=True) for number in (1, 2)]
    owner = await harness.submit_running("owner", project="owners")
    asked = [one for one in [await harness.view(guest) for guest in guests] if one["preemption"]]
    assert [(one["preemption"]["cause"], one["preemption"]["by_session"]) for one in asked] == [("quota", owner)]
    guest = asked[0]["id"]
    await harness.wait_for_state(guest, "queued")
    harness.end("owner")
    assert (await harness.wait_for_state(guest, "running"))["attempt"] == 2


COUNTS = """
step=$(cat "$CHECKPOINT_DIR/step" 2>/dev/null || echo 0)
echo "$step" >> %(began)s
trap 'echo $step > "$CHECKPOINT_DIR/step"' USR1
while [ ! -e %(go)s ]; do step=$((step + 1)); echo $step > %(reached)s; sleep 0.05; done
echo $step > %(done)s
"""


async def test_under_srtf_a_short_session_preempts_a_long_one_that_resumes_from_its_checkpoint(
    harness: SchedulingHarness, operator: Operator
) -> None:
    await operator.policy(order="srtf", preemption={**WILLING, "restart": 0, "grace": 1})
    shell = COUNTS % {name: harness.mark(name) for name in ("began", "go", "reached", "done")}
    asked = {"shell": shell, "checkpoint_signal": "SIGUSR1", "grace": 1.0, "estimated_duration": 36_000}
    long = await harness.submit_running("long", devices="1", preemptible=True, **asked)
    other = await harness.submit_running("other", devices="1", estimated_duration=36_000)
    await harness.wait_for_mark("reached")
    similar = await harness.submit("similar", estimated_duration=36_000)
    await harness.wait_for_reason(similar, "insufficient")
    short = await harness.submit_running("short", estimated_duration=60)
    receipt = (await harness.wait_for_state(long, "queued"))["preemption"]
    assert (receipt["cause"], receipt["by_session"]) == ("order", short)
    seen = await harness.view(other)
    assert (seen["state"], seen["preemptions"]) == ("running", 0), "a session that is not preemptible was displaced"
    harness.end("short")
    await harness.wait_for_state(long, "running")
    harness.mark("go").touch()
    seen = await harness.wait_for_state(long, "completed", "failed")
    assert (seen["state"], seen["attempt"], seen["preemptions"], seen["retry_count"]) == ("completed", 2, 1, 0)
    first, second = (int(step) for step in harness.mark("began").read_text().split())
    assert first == 0
    assert 0 < second <= int(harness.mark("done").read_text()), "it began anew"
