"""Preemption: by a higher priority, and by the owner of lent quota."""

from datetime import datetime

import pytest

from e2e_scheduling import Desk
from e2e_steering import Office

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


async def test_a_preempted_session_saves_its_work_and_resumes_from_it(desk: Desk, office: Office) -> None:
    await office.policy(order="priority", preemption=WILLING)
    shell = SAVES % {"found": desk.mark("found"), "ready": desk.mark("ready")}
    victim = await desk.running("victim", shell=shell, checkpoint_signal="SIGUSR1", grace=1.0, **LENT)
    await desk.until_mark("ready")
    urgent = await desk.running("urgent", devices="2", priority="high")
    asked = (await desk.until(victim, "queued"))["preemption"]
    assert (asked["cause"], asked["by_session"], asked["by_user"]) == (
        "priority",
        urgent,
        (await desk.view(urgent))["owner"],
    )
    at, until = (datetime.fromisoformat(asked[name]) for name in ("at", "until"))
    assert (until - at).total_seconds() == 1.0
    assert asked["lost_gpu_seconds"] >= 1.0
    desk.end("urgent")
    seen = await desk.until(victim, "completed", "failed")
    assert (seen["state"], seen["attempt"], seen["preemptions"], seen["retry_count"]) == ("completed", 2, 1, 0)
    assert desk.mark("found").read_text() == "41\n"
    course = await desk.course_of(victim, last="session.completed")
    kinds = [one["kind"].removeprefix("session.") for one in course]
    first = kinds.index("preempting")
    assert kinds[first : first + 2] == ["preempting", "requeued"]
    receipts = [one["session"]["preemption"]["lost_gpu_seconds"] for one in course[first : first + 2]]
    assert receipts == [None, asked["lost_gpu_seconds"]]


async def test_a_preempted_session_that_succeeds_within_its_grace_is_completed(desk: Desk, office: Office) -> None:
    await office.policy(order="priority", preemption=WILLING)
    shell = FINISHES % {"go": desk.mark("finish"), "ready": desk.mark("set")}
    victim = await desk.running("ends", devices="2", shell=shell, checkpoint_signal="SIGUSR1", grace=600, **LENT)
    await desk.until_mark("set")
    urgent = await desk.submit("after", priority="critical")
    waits = await desk.until_waits(urgent, "making_room")
    leaving = await desk.until(victim, "preempting")
    assert (waits["waits"]["blocked_by"], waits["expected_start"]) == ([victim], leaving["preemption"]["until"])
    assert leaving["reserve_until"] == leaving["preemption"]["until"]
    desk.end("finish")
    seen = await desk.until(victim, "completed", "queued")
    assert (seen["state"], seen["exit_code"], seen["preemptions"], seen["attempt"]) == ("completed", 0, 0, 1)
    await desk.until(urgent, "running")


async def test_no_session_is_preempted_when_that_would_free_too_few_devices(desk: Desk, office: Office) -> None:
    await office.policy(order="priority", preemption=WILLING)
    willing = await desk.running("willing", **LENT)
    await desk.running("unwilling", priority="low")
    urgent = await desk.submit("blocked", devices="2", priority="high")
    equal = await desk.submit("equal", priority="low")
    await desk.until_waits(urgent, "insufficient")
    await desk.until_seen(equal, lambda seen: bool(seen["waits"]))
    seen = await desk.view(willing)
    assert (seen["state"], seen["preemption"]) == ("running", None)
    desk.end("unwilling")
    await desk.until(urgent, "running")
    assert (await desk.until(willing, "queued"))["preemption"]["by_session"] == urgent


async def test_a_quota_owner_preempts_sessions_that_use_its_lent_quota(desk: Desk, office: Office) -> None:
    await office.policy(order="fcfs", preemption=WILLING)
    await office.quota("project", "owners", own_slots={"cuda.device": "2"})
    await office.quota("project", "guests")
    guests = [await desk.running(f"guest-{number}", project="guests", preemptible=True) for number in (1, 2)]
    owner = await desk.running("owner", project="owners")
    asked = [one for one in [await desk.view(guest) for guest in guests] if one["preemption"]]
    assert [(one["preemption"]["cause"], one["preemption"]["by_session"]) for one in asked] == [("quota", owner)]
    guest = asked[0]["id"]
    await desk.until(guest, "queued")
    desk.end("owner")
    assert (await desk.until(guest, "running"))["attempt"] == 2


COUNTS = """
step=$(cat "$CHECKPOINT_DIR/step" 2>/dev/null || echo 0)
echo "$step" >> %(began)s
trap 'echo $step > "$CHECKPOINT_DIR/step"' USR1
while [ ! -e %(go)s ]; do step=$((step + 1)); echo $step > %(reached)s; sleep 0.05; done
echo $step > %(done)s
"""


async def test_under_srtf_a_short_session_preempts_a_long_one_that_resumes_from_its_checkpoint(
    desk: Desk, office: Office
) -> None:
    await office.policy(order="srtf", preemption={**WILLING, "restart": 0, "grace": 1})
    shell = COUNTS % {name: desk.mark(name) for name in ("began", "go", "reached", "done")}
    asked = {"shell": shell, "checkpoint_signal": "SIGUSR1", "grace": 1.0, "estimated_duration": 36_000}
    long = await desk.running("long", devices="1", preemptible=True, **asked)
    other = await desk.running("other", devices="1", estimated_duration=36_000)
    await desk.until_mark("reached")
    similar = await desk.submit("similar", estimated_duration=36_000)
    await desk.until_waits(similar, "insufficient")
    short = await desk.running("short", estimated_duration=60)
    receipt = (await desk.until(long, "queued"))["preemption"]
    assert (receipt["cause"], receipt["by_session"]) == ("order", short)
    seen = await desk.view(other)
    assert (seen["state"], seen["preemptions"]) == ("running", 0), "a session that is not preemptible was displaced"
    desk.end("short")
    await desk.until(long, "running")
    desk.mark("go").touch()
    seen = await desk.until(long, "completed", "failed")
    assert (seen["state"], seen["attempt"], seen["preemptions"], seen["retry_count"]) == ("completed", 2, 1, 0)
    first, second = (int(step) for step in desk.mark("began").read_text().split())
    assert first == 0
    assert 0 < second <= int(desk.mark("done").read_text()), "it began anew"
