"""Simulated measurements of busy devices: load that jumps and stays, memory in steps, noise on the rest."""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from aliquot.service.history.measures import AgentDevices, DeviceSample
from aliquot_schema.ids import AgentId, DeviceId, NodeId

EVERY_S: Final = 2
MEMORY: Final = 80 * 2**30
BUSY_S: Final = 3 * 3600
"""Mean time that a job holds its device."""
IDLE_S: Final = 3600

Numbers = NDArray[np.float64]


def samples(*, agents: int, devices: int, hours: int, start_us: int, seed: int) -> Iterator[DeviceSample]:
    """Agents in turn, each every two seconds; times jitter by some milliseconds."""
    rng = np.random.default_rng(seed)
    for hour in range(0, hours, 24):
        span = min(24, hours - hour)
        courses = [[_course(rng, span * 3600 // EVERY_S) for _ in range(devices)] for _ in range(agents)]
        rows = [np.stack(course).transpose(2, 0, 1).tolist() for course in courses]
        rosters = [_agent_devices(agent, devices) for agent in range(agents)]
        shakes = rng.integers(0, 20_000, (agents, span * 3600 // EVERY_S)).tolist()
        for index in range(span * 3600 // EVERY_S):
            at_us = start_us + (hour * 3600 + index * EVERY_S) * 1_000_000
            for agent in range(agents):
                values = tuple(map(tuple, rows[agent][index]))
                yield DeviceSample(roster=rosters[agent], at_us=at_us + shakes[agent][index], values=values)


def _agent_devices(agent: int, devices: int) -> AgentDevices:
    names = tuple(
        DeviceId(f"GPU-{agent:08x}-{index:04x}-4000-8000-{agent * 8 + index:012x}") for index in range(devices)
    )
    return AgentDevices(
        agent_id=AgentId(f"agent-{agent}"),
        node_id=NodeId(f"node-{agent}"),
        device_ids=names,
        counted=(True,) * devices,
    )


def _course(rng: Any, length: int) -> Numbers:
    """One device, measures x times, whole numbers as drivers give them."""
    load, memory, held = np.zeros(length), np.full(length, 600.0 * 2**20), np.zeros(length)
    at = -int(rng.integers(0, BUSY_S // EVERY_S))
    while at < length:
        busy = max(30, int(rng.exponential(BUSY_S) / EVERY_S))
        job = slice(max(0, at), max(0, min(length, at + busy)))
        if job.stop > job.start:
            _run(rng, load, memory, held, job)
        at += busy + int(rng.exponential(IDLE_S) / EVERY_S)
    power = np.rint(75 + 600 * load / 100 + rng.normal(0, 6, length))
    heat = np.convolve(load, np.exp(-np.arange(60) / 20)[::-1] / 20, mode="full")[:length]
    warmth = np.rint(34 + 0.4 * heat + 0.7 * rng.normal(0, 1, length))
    return np.stack([np.rint(load), memory, warmth, power, held])


def _run(rng: Any, load: Numbers, memory: Numbers, held: Numbers, job: slice) -> None:
    """One job: it loads data, runs at its own level, and pauses now and then to write a checkpoint."""
    size = job.stop - job.start
    level, noise = rng.uniform(35, 99), rng.choice([0.5, 2.0, 6.0])
    found = np.clip(level + rng.normal(0, noise, size), 0, 100)
    found[: min(size, 20)] = 0
    for pause in range(int(rng.integers(100, 600)), size, int(rng.integers(200, 900))):
        found[pause : pause + int(rng.integers(2, 10))] = rng.integers(0, 10)
    load[job] = found
    steps = np.sort(rng.uniform(0.2, 0.95, 3)) * MEMORY
    for index, step in enumerate(steps):
        memory[job.start + size * index // 200 : job.stop] = step // 2**21 * 2**21
    held[job] = rng.choice([1000, 1000, 1000, 500])
