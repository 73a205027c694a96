"""Readings of the generated week: utilization, memory, temperature and power of every GPU, minute by minute.

They follow from who held what, by the rules of the demo's synthetic readings: training shows 60 to 97 %, with memory in
steps, and an idle holder shows 0 %. The blocks are those that a rollup of a week of readings would have left.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np
from msgspec import Struct
from sqlalchemy import Connection

from aliquot.demo.week import GeneratedWeek
from aliquot.execution.devices.mock import (
    FULL_C,
    FULL_W,
    IDLE_C,
    IDLE_W,
    MEMORY_FIRST,
    synthetic_memory,
    synthetic_pct,
    synthetic_phase,
)
from aliquot.service.history.grids import Floats, Grid, GridSpan
from aliquot.service.history.measures import MEASURES, WHOLE, MeasureKind, index_of
from aliquot.store.store import Database
from aliquot.store.timeseries import rows
from aliquot.store.timeseries.blocks import encode
from aliquot.store.timeseries.tiers import HOUR_US, MINUTE_US, SECOND_US, Tier
from aliquot.store.timeseries.windows import SeriesKey
from aliquot_schema.cluster.agents import Agent
from aliquot_schema.ids import DeviceId, task_parts
from aliquot_schema.resources.devices import Device
from aliquot_schema.resources.leases import Lease
from aliquot_schema.resources.slots import MILLI, is_accelerator

RAW_HOURS: Final = 2
"""Whole hours before the end that also have readings at full resolution, as pages show the last hour in."""
RAW_STEP_US: Final = 10 * SECOND_US
RAW_BLOCK: Final = 30
"""Readings per block: five minutes."""


class _Use(Struct, frozen=True, kw_only=True):
    """What one lease holds of one device."""

    device_id: DeviceId
    part: float
    """0 to 1."""
    since_us: int
    until_us: int
    is_idle: bool
    phase: float


async def store_readings(week: GeneratedWeek, database: Database) -> None:
    """Write the readings of a week into a history that has none yet.

    Raises:
        StoreUnavailable: it cannot be written.
    """
    await database.open()
    try:
        await database.write(partial(_write, week=week))
    finally:
        await database.close()


def _write(connection: Connection, *, week: GeneratedWeek) -> None:
    first_us, last_us = -(-week.since_us // HOUR_US) * HOUR_US, week.until_us // HOUR_US * HOUR_US
    raw_us = last_us - RAW_HOURS * HOUR_US
    coarse = Grid(start_us=first_us, step_us=MINUTE_US, points=(last_us - first_us) // MINUTE_US)
    fine = Grid(start_us=raw_us, step_us=RAW_STEP_US, points=(week.until_us - raw_us) // RAW_STEP_US)
    with connection.begin():
        for grid, tier in ((coarse, Tier.MINUTES), (fine, Tier.RAW)):
            _write_tier(connection, week, grid, tier)


def _write_tier(connection: Connection, week: GeneratedWeek, grid: Grid, tier: Tier) -> None:
    uses = [use for lease in week.leases for use in _uses(week, lease)]
    held: Floats = np.zeros((2, grid.points))
    for agent in week.agents:
        devices = _accelerators(agent)
        planes = np.stack([_device(device, uses, grid=grid) for device in devices], axis=1)
        held += np.stack([planes[_HELD].sum(axis=0), np.where(planes[_LOAD] < 1.0, planes[_HELD], 0.0).sum(axis=0)])
        key = SeriesKey(MeasureKind.DEVICES, agent.id, tuple(device.id for device in devices))
        _put(connection, key, grid, planes, tier=tier)
    total = sum(len(_accelerators(agent)) for agent in week.agents)
    queue = _queue(week, grid, gpus=np.stack([np.full(grid.points, total), *(held / MILLI)]))
    _put(connection, SeriesKey(MeasureKind.QUEUE, "", (WHOLE,)), grid, queue, tier=tier)


def _put(connection: Connection, key: SeriesKey, grid: Grid, planes: Floats, *, tier: Tier) -> None:
    """Write a series in blocks. Hours are rolled up later, by the server."""
    series = rows.add_series(connection, key, start_us=grid.start_us)
    is_raw, blocks = tier is Tier.RAW, []
    size = RAW_BLOCK if is_raw else HOUR_US // grid.step_us
    at_us = grid.start_us + np.arange(grid.points, dtype=np.int64) * grid.step_us
    for start in range(0, grid.points, size):
        part = slice(start, start + size)
        counts = np.full(len(at_us[part]), 1 if is_raw else MINUTE_US // RAW_STEP_US, np.int64)
        values = planes[:, :, part]
        span = GridSpan(devices=key.devices, at_us=at_us[part], counts=counts, mean=values, maximum=values)
        blocks.append((series, int(at_us[start]), encode(span, MEASURES[key.kind], has_maxima=not is_raw)))
    rows.replace_blocks(connection, tier, blocks)
    if not is_raw:
        rows.advance(connection, tier, of=series, to_us=grid.end_us)


def _accelerators(agent: Agent) -> list[Device]:
    return [device for device in agent.devices if any(map(is_accelerator, device.costs))]


def _uses(week: GeneratedWeek, lease: Lease) -> list[_Use]:
    assert lease.session_id is not None
    assert lease.released_us is not None
    session_id = lease.session_id
    devices = {device.id: device for agent in week.agents if agent.id == lease.agent_id for device in agent.devices}
    return [
        _Use(
            device_id=device_id,
            part=amount * devices[device_id].costs[slot] / devices[device_id].budget,
            since_us=lease.granted_us,
            until_us=lease.released_us,
            is_idle=week.work[task_parts(session_id)[0]].is_idle,
            phase=synthetic_phase(device_id),
        )
        for slot, amounts in lease.spec.items()
        if is_accelerator(slot)
        for device_id, amount in amounts.items()
    ]


def _device(device: Device, uses: Sequence[_Use], *, grid: Grid) -> Floats:
    """The curves of a device, in the order of `DEVICE_MEASURES`."""
    load, memory, held = np.zeros(grid.points), np.zeros(grid.points), np.zeros(grid.points)
    for use in uses:
        first = max(0, -(-(use.since_us - grid.start_us) // grid.step_us))
        last = min(grid.points, -(-(use.until_us - grid.start_us) // grid.step_us))
        if use.device_id != device.id or first >= last:
            continue
        alive_s = (grid.start_us + np.arange(first, last) * grid.step_us - use.since_us) / SECOND_US
        held[first:last] += use.part * MILLI
        if use.is_idle:
            memory[first:last] += use.part * MEMORY_FIRST
            continue
        load[first:last] += use.part * synthetic_pct(alive_s, phase=use.phase)
        memory[first:last] += use.part * synthetic_memory(alive_s, phase=use.phase)
    heat = load / 100
    celsius, watts = IDLE_C + (FULL_C - IDLE_C) * heat, IDLE_W + (FULL_W - IDLE_W) * heat
    return np.stack([load, memory * device.memory_bytes, celsius, watts, held])


def _queue(week: GeneratedWeek, grid: Grid, *, gpus: Floats) -> Floats:
    """The curves of the queue, in the order of `QUEUE_MEASURES`."""
    pending, running, submitted, started, ended, waited = (np.zeros(grid.points + 1) for _ in range(6))

    def step(at_us: int) -> int:
        return min(max(0, (at_us - grid.start_us) // grid.step_us), grid.points)

    for session in week.sessions:
        if session.tasks is not None:
            continue
        pending[step(session.queued_us)] += 1
        pending[step(session.scheduled_us or session.ended_us or week.until_us)] -= 1
        for times, at_us in ((submitted, session.queued_us), (ended, session.ended_us)):
            if at_us is not None and grid.start_us <= at_us < grid.end_us:
                times[step(at_us)] += 1
        if session.scheduled_us is None or session.ended_us is None:
            continue
        running[step(session.scheduled_us)] += 1
        running[step(session.ended_us)] -= 1
        if grid.start_us <= session.scheduled_us < grid.end_us:
            started[step(session.scheduled_us)] += 1
            waited[step(session.scheduled_us)] += (session.scheduled_us - session.queued_us) / SECOND_US
    curves = [np.cumsum(pending), np.cumsum(running), submitted, started, ended, waited]
    return np.concatenate([np.stack(curves)[:, : grid.points], gpus])[:, None, :]


_LOAD: Final = index_of(MeasureKind.DEVICES, "utilization")
_HELD: Final = index_of(MeasureKind.DEVICES, "held")
