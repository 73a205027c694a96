"""Advice in session statistics: one sentence, by use."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from aliquot.service.history.session_stats import (
    HeldPart,
    advice,
    gpu_stats,
    held_s,
    host_stats,
    productive_s,
    waited_s,
)
from aliquot_schema.ids import AgentId, DeviceId
from aliquot_schema.resources.leases import HostUse
from aliquot_schema.states import SessionState
from aliquot_schema.views.sessions import DeviceAmountView, SlotGrantView
from aliquot_schema.views.statistics import GpuStatsView, HostStatsView
from api_views import MOMENT, kernel, session

GIB = 1 << 30
LONG_S = 3600.0
HOUR_LIMIT = {"time_limit": 4 * LONG_S, "state": SessionState.COMPLETED}


def gpu(**more: Any) -> GpuStatsView:
    fields: dict[str, Any] = {"utilization": 80.0, "utilization_max": 99.0, "memory_gb": 80.0, "memory_peak_gb": 60.0}
    return GpuStatsView(agent_id="a", device_id="g", share=1.0, **(fields | more))


@pytest.mark.parametrize(
    ("gpus", "more", "expected"),
    [
        ([gpu(utilization=1.0)], {}, "Its GPUs were hardly used"),
        ([gpu(), gpu(utilization=0.0)], {}, "1 of its 2 GPUs were hardly used: 1 would do (-r gpu=1)."),
        ([gpu(memory_peak_gb=79.0)], {}, "nearly all of its GPU memory"),
        ([gpu(utilization=20.0, memory_peak_gb=10.0)], {}, "Half of each GPU would do"),
        ([gpu()], HOUR_LIMIT, "It ran 1 h of its limit of 4 h"),
        ([gpu()], {**HOUR_LIMIT, "state": SessionState.FAILED}, "matches what it requested"),
        ([gpu(utilization=None, memory_peak_gb=None)], {}, "Its GPUs were not measured."),
        ([gpu()], {}, "matches what it requested"),
        (
            [gpu(), gpu(utilization=0.0)],
            {"cluster_size": 2},
            "1 of its 2 GPUs were hardly used: --cluster-size 1 would",
        ),
        ([gpu(), gpu(), gpu(), gpu(utilization=0.0)], {"cluster_size": 2}, "1 of its 4 GPUs were hardly used."),
        ([gpu(), gpu(utilization=0.0)], {"attempt": 2}, "hardly used, counted over its 2 attempts."),
    ],
)
def test_the_most_valuable_advice_comes_first(gpus: list[GpuStatsView], more: dict[str, Any], expected: str) -> None:
    assert expected in advice(replace(session(1), **more), gpus, [], ran_s=LONG_S)


def test_the_memory_of_a_shared_gpu_is_not_judged_as_others_use_it_too() -> None:
    shared = GpuStatsView(
        agent_id="a",
        device_id="g",
        share=0.25,
        utilization=50.0,
        utilization_max=80.0,
        memory_gb=20.0,
        memory_peak_gb=60.0,
    )
    assert "matches what it requested" in advice(session(1), [shared], [], ran_s=LONG_S)


def host(**more: Any) -> HostStatsView:
    fields: dict[str, Any] = {"cpu": 3.0, "cpu_mean": 3.0, "cpu_max": 4.0, "cpu_held": 4.0, "memory": 9 * GIB}
    fields |= {"memory_peak": 9 * GIB, "memory_held": 16 * GIB, "cpu_seconds": 3 * LONG_S}
    return HostStatsView(rank=0, agent_id="a", **(fields | more))


@pytest.mark.parametrize(
    ("gpus", "hosts", "expected"),
    [
        ([gpu()], [host()], "matches what it requested"),
        ([], [host(memory_peak=16 * GIB - 1)], "It used 16 GiB of its 16 GiB of memory: request more (-r mem=SIZE)."),
        (
            [gpu(utilization=20.0)],
            [host(cpu_mean=3.9)],
            "waited while all of its CPUs were in use: request more CPUs (-r",
        ),
        ([gpu()], [host(cpu_max=1.2)], "at most 1.2 of its 4 CPUs: request fewer (-r cpu=2)."),
        ([], [host(memory_peak=3 * GIB)], "at most 3 GiB of its 16 GiB of memory: request less (-r mem=4g)."),
        ([], [host(memory_peak=3 * GIB), host()], "matches what it requested"),
        ([], [host(cpu_max=None, memory_peak=None, cpu_held=None, memory_held=None)], "matches what it requested"),
    ],
)
def test_cpu_and_memory_are_judged_by_the_rank_that_used_the_most(
    gpus: list[GpuStatsView], hosts: list[HostStatsView], expected: str
) -> None:
    assert expected in advice(session(1), gpus, hosts, ran_s=LONG_S)


def test_host_statistics_show_the_use_of_a_rank_and_its_requested_amounts() -> None:
    spec = tuple(
        SlotGrantView(slot=slot, devices=(DeviceAmountView(device_id=slot, amount=amount),))
        for slot, amount in (("cpu", "4"), ("mem", "16g"))
    )
    use = HostUse(cpu_ms=120_000, cpu_milli=1200, cpu_milli_max=3800, memory_bytes=3 * GIB, memory_bytes_max=5 * GIB)
    running = replace(kernel(), resource_spec=spec, host_use=use)
    began_s = MOMENT.timestamp()
    [found] = host_stats([running, kernel()], now_s=began_s + 60)
    assert (found.cpu, found.cpu_mean, found.cpu_max, found.cpu_held) == (1.2, 2.0, 3.8, 4.0)
    assert (found.memory, found.memory_peak, found.memory_held) == (3 * GIB, 5 * GIB, 16 * GIB)
    [ended] = host_stats([replace(running, ended_at=MOMENT + timedelta(seconds=240))], now_s=began_s + 999)
    assert (ended.cpu, ended.memory, ended.cpu_mean, ended.memory_peak) == (None, None, 0.5, 5 * GIB)


def test_sessions_with_a_short_run_or_no_run_get_no_advice() -> None:
    assert "too short" in advice(session(1), [gpu(utilization=0.0)], [], ran_s=60.0)
    assert advice(session(1), [], [], ran_s=None) == "It has not run yet."


def test_gpu_statistics_over_several_attempts_use_the_largest_share() -> None:
    parts = [
        HeldPart(
            agent_id=AgentId("a"), device_id=DeviceId("g"), share=share, memory_bytes=80 * 10**9, from_s=0, held_s=60
        )
        for share in (0.25, 0.5)
    ]
    [found] = gpu_stats(parts, {})
    assert (found.share, found.memory_gb, found.utilization) == (0.5, 40.0, None)


def part(from_s: float, until_s: float) -> HeldPart:
    return HeldPart(
        agent_id=AgentId("a"), device_id=DeviceId("g"), share=1, memory_bytes=0, from_s=from_s, held_s=until_s - from_s
    )


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([], 0.0),
        ([(10, 20)], 10.0),
        ([(10, 20), (10, 20), (10, 25)], 15.0),  # the ranks of one attempt
        ([(40, 50), (10, 20)], 20.0),  # two attempts, with a wait between
        ([(10, 50), (20, 30), (45, 60)], 50.0),
    ],
)
def test_time_with_gpus_counts_once_for_all_ranks_and_not_between_attempts(
    spans: list[tuple[float, float]], expected: float
) -> None:
    assert held_s(part(*span) for span in spans) == expected


@pytest.mark.parametrize(
    ("state", "ended_s", "expected"),
    [
        (SessionState.RUNNING, None, 100.0 + 600.0),
        (SessionState.COMPLETED, 300.0, 100.0 + 300.0),
        (SessionState.CANCELED, 300.0, 100.0 + 300.0),
        (SessionState.FAILED, 300.0, 150.0),
        (SessionState.QUEUED, None, 150.0),
    ],
)
def test_run_time_is_productive_unless_its_work_is_lost(
    state: SessionState, ended_s: float | None, expected: float
) -> None:
    ended_at = None if ended_s is None else MOMENT + timedelta(seconds=ended_s)
    one = replace(session(1), state=state, started_at=MOMENT, ended_at=ended_at, kept=150.0, kept_at_start=100.0)
    assert productive_s(one, now_s=MOMENT.timestamp() + 600) == expected


@pytest.mark.parametrize(
    ("scheduled_s", "started_s", "ended_s", "expected"),
    [
        (90, 100, 200, 60.0),  # two attempts ran for 20 s each before
        (None, None, None, 260.0),  # it waits again
        (None, None, 80, 40.0),  # it was canceled while it waited again
    ],
)
def test_the_runs_of_earlier_attempts_are_no_wait(
    scheduled_s: float | None, started_s: float | None, ended_s: float | None, expected: float
) -> None:
    times = (scheduled_s, started_s, ended_s)
    scheduled, started, ended = (None if at_s is None else MOMENT + timedelta(seconds=at_s) for at_s in times)
    one = replace(session(1), queued_at=MOMENT, scheduled_at=scheduled, started_at=started, ended_at=ended)
    began_s = MOMENT.timestamp()
    spans = [
        (began_s + since, began_s + until) for since, until in ((10, 30), (10, 30), (50, 70), (-90, -60))
    ]  # retried
    spans += [] if scheduled is None else [(began_s + 90, began_s + 200)]
    assert waited_s(one, spans, now_s=began_s + 300) == expected
