"""Sessions that are retried, settle for less, and depend on others of their batch."""

import os
import signal
from datetime import datetime
from typing import Any

import pytest

from aliquot.cli.acceptance.checks import live_kernels
from aliquot.client import Refused
from e2e_operator import CREATE_ALL, Operator
from e2e_scheduling import SchedulingHarness

pytestmark = pytest.mark.anyio

ONE_GPU = [{"slot": "cuda.device", "amount": "1"}]
RETRIES = {"tries_min": 3, "wait_first": 0.5, "wait_max": 60, "jitter_pct": 0}


def steps(*names: str, shells: dict[str, str] | None = None, **after: list[str]) -> list[dict[str, Any]]:
    """A batch of sessions, each with its dependencies."""
    return [
        {
            "local_name": name,
            "name": name,
            "command": {"shell": (shells or {}).get(name, "true")},
            "slots": ONE_GPU,
            "depends_on": [{"session_id": other} for other in after.get(name, [])],
        }
        for name in names
    ]


async def submit_all(harness: SchedulingHarness, batch: list[dict[str, Any]]) -> dict[str, str]:
    """Submit a batch; ids by name."""
    made = await harness.client.change(CREATE_ALL, {"input": {"sessions": batch}})
    return {result["session"]["name"]: result["session"]["id"] for result in made["results"]}


def waits_between(course: list[dict[str, Any]]) -> list[float]:
    """Seconds from each attempt's end to the next grant."""
    times = [(one["kind"], datetime.fromisoformat(one["at"])) for one in course]
    ends = [at for kind, at in times if kind == "session.requeued"]
    grants = [at for kind, at in times if kind == "session.scheduled"][1:]
    return [(grant - end).total_seconds() for end, grant in zip(ends, grants, strict=True)]


async def test_a_failed_command_is_retried_when_the_session_asks_for_it(
    harness: SchedulingHarness, operator: Operator
) -> None:
    await operator.policy(retries=RETRIES)
    tries = harness.mark("tries")
    shell = f"echo x >> {tries}; [ $(wc -l < {tries}) -ge 3 ]"
    session = await harness.submit("flaky", shell=shell, max_retries=5, retries_own_failures=True)
    seen = await harness.wait_for_state(session, "completed", "failed")
    assert (seen["state"], seen["attempt"], seen["retry_count"]) == ("completed", 3, 2)
    first, second = waits_between(await harness.updates_of(session, last="session.completed"))
    assert (first > 0.25, second > 0.5) == (True, True)  # a commit is published slightly after its decision
    once = await harness.submit("once", shell="exit 4", max_retries=5)
    seen = await harness.wait_for_state(once, "completed", "failed")
    assert (seen["state"], seen["exit_code"], seen["attempt"]) == ("failed", 4, 1)


async def test_a_session_whose_processes_were_killed_from_outside_is_retried(
    harness: SchedulingHarness, operator: Operator
) -> None:
    await operator.policy(retries=RETRIES)
    session = await harness.submit_running("victim")
    for pid in (shim_of(harness, session), live_kernels(harness.server.data_folder)[f"{session}.1.0"].pid):
        os.kill(pid, signal.SIGKILL)
    seen = await harness.wait_for_session(session, lambda one: (one["state"], one["attempt"]) == ("running", 2))
    assert (seen["retry_count"], seen["failure"]) == (1, None)


async def test_a_launch_that_fails_is_tried_again_later(harness: SchedulingHarness, operator: Operator) -> None:
    await operator.policy(retries=RETRIES)
    (kernels,) = harness.server.data_folder.glob("agents/*/kernels")
    away = kernels.rename(kernels.with_name("kernels-away"))
    kernels.write_text("a disk that can hold no folder")
    session = await harness.submit("unlucky", shell="true")
    seen = await harness.wait_for_session(session, lambda one: one["retry_count"] > 0)
    assert seen["state"] in ("queued", "scheduled", "allocating")
    kernels.unlink()
    away.rename(kernels)
    seen = await harness.wait_for_state(session, "completed", "failed")
    assert (seen["state"], seen["retry_count"], seen["attempt"] > seen["retry_count"]) == ("completed", 1, True)


def shim_of(harness: SchedulingHarness, session: str) -> int:
    """Pid of the job's parent (shim)."""
    job = live_kernels(harness.server.data_folder)[f"{session}.1.0"].pid
    with open(f"/proc/{job}/stat", encoding="ascii") as stat:
        return int(stat.read().rpartition(")")[2].split()[1])


async def test_a_session_that_waits_too_long_falls_back_to_fewer_gpus_for_good(
    harness: SchedulingHarness, operator: Operator
) -> None:
    await harness.submit_running("in-the-way")
    fallbacks = [{"slots": ONE_GPU, "after_s": 0.5}]
    shell = f"{harness.wait_for_end_command('smaller')}"
    session = await harness.submit(
        "smaller", devices="2", shell=shell, fallbacks=fallbacks, max_retries=1, retries_own_failures=True
    )
    assert (await harness.wait_for_session(session, lambda one: bool(one["waits"])))["fallback_level"] == 0
    seen = await harness.wait_for_state(session, "running")
    assert (seen["fallback_level"], len(given(seen))) == (1, 1)
    kinds = {
        one["kind"]: one["session"]["fallback_level"]
        for one in await harness.updates_of(session, last="session.running")
    }
    assert kinds["session.fell_back"] == 1
    harness.end("in-the-way")
    await operator.policy(retries=RETRIES)
    harness.end("smaller", code=1)
    seen = await harness.wait_for_state(session, "failed")
    assert (seen["attempt"], seen["fallback_level"], len(given(seen))) == (2, 1, 1)


def given(seen: dict[str, Any]) -> list[str]:
    """The GPUs granted to a session."""
    (kernel,) = seen["kernels"]
    parts = (device["device_id"] for grant in kernel["resource_spec"] for device in grant["devices"])
    return [part for part in parts if not part.startswith(("cpu", "mem"))]


async def test_a_batch_runs_in_the_order_of_its_dependencies(harness: SchedulingHarness) -> None:
    order = harness.mark("order")
    names = ("prepare", "left", "right", "report")
    shells = {name: f"echo {name} >> {order}" for name in names}
    after = {"left": ["prepare"], "right": ["prepare"], "report": ["left", "right"]}
    ids = await submit_all(harness, steps("report", "right", "left", "prepare", shells=shells, **after))
    await harness.wait_for_state(ids["report"], "completed")
    ran = order.read_text().split()
    assert (ran[0], sorted(ran[1:3]), ran[3]) == ("prepare", ["left", "right"], "report")


async def test_a_dependency_cycle_is_refused_and_no_session_of_the_batch_is_created(harness: SchedulingHarness) -> None:
    revision = "{ sessions(first: 1) { total_count } }"
    before = await harness.client.execute(revision)
    with pytest.raises(Refused, match="a -> b -> a is a cycle") as refused:
        await submit_all(harness, steps("a", "b", "c", a=["b"], b=["a"]))
    assert refused.value.code == "invalid_request"
    assert await harness.client.execute(revision) == before


async def test_a_session_whose_dependency_cannot_be_met_fails_with_the_reason(harness: SchedulingHarness) -> None:
    batch = steps("first", "second", "third", "rescue", shells={"first": "exit 2"}, second=["first"], third=["second"])
    batch[-1]["depends_on"] = [{"session_id": "first", "condition": "after_fail"}]
    ids = await submit_all(harness, batch)
    await harness.wait_for_state(ids["rescue"], "completed")
    seen = await harness.wait_for_state(ids["third"], "failed")
    assert seen["failure"]["code"] == "dependency"
    assert seen["failure"]["message"] == f"dependency {ids['second']} is failed, so after_ok cannot be met"
