"""Detection of idle GPUs, on a recording of GPUs that serve models."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise
from math import isnan
from operator import itemgetter
from typing import Final

from registry import Key, scenario

from aliquot.core.idleness import SECOND_US, IdleRule, IdleState, UseReading
from aliquot.core.use_trend import UseTrend
from simulation import FOLDER

FILE: Final = FOLDER.parent / "gpu_use" / "serving_pods.parquet"
ABSENT: Final = "no recording of GPU use: set ALIQUOT_TRACES to a folder with gpu_use/serving_pods.parquet"
LATE_US: Final = 300 * SECOND_US
DROPPED_US: Final = 900 * SECOND_US
MISSING_US: Final = 180 * SECOND_US
GAP_US: Final = 900 * SECOND_US
"""A spell ends at a longer gap in the readings."""


@dataclass(frozen=True, slots=True)
class Spell:
    """Consecutive readings of zero."""

    first_us: int
    last_us: int


@scenario(
    Key(name="idle_found_pct", what="idle spells of 30 min and more found within 5 min", reach=">= 95"),
    Key(name="idle_false", what="GPUs reported that were used within the last 30 min, or not measured", reach="= 0"),
)
async def idle_gpus() -> dict[str, float]:
    """The rule was tuned on the pods with even numbers; the figures of the others alone are `_held_back`."""
    if not FILE.exists():
        raise RuntimeError(ABSENT)
    rule = IdleRule()
    pods = {pod: tuple(readings) for pod, readings in _pods()}
    values = _measured(list(pods.values()), rule)
    held_back = _measured([readings for pod, readings in pods.items() if pod % 2], rule)
    return values | {f"{name}_held_back": value for name, value in held_back.items()}


@scenario(
    Key(name="use_dropped_alarms", what="alarms of dropped use on 75 GPUs, 57 GPU-days", reach="<= 6"),
)
async def dropped_use() -> dict[str, float]:
    """The recording does not mark real faults, so each alarm counts: an upper bound of false alarms.
    `use_steady_hours` are the GPU-hours in which one was possible."""
    if not FILE.exists():
        raise RuntimeError(ABSENT)
    alarms = steady_us = 0
    for _, readings in _pods():
        trend = UseTrend()
        for reading in readings:
            before, trend = trend, trend.after(reading.at_us, reading.utilization_pct)
            alarms += trend.is_dropped(DROPPED_US) and not before.is_dropped(DROPPED_US)
            if trend.steady_pct is not None and trend.last_us is not None and before.last_us is not None:
                steady_us += trend.last_us - before.last_us
    return {"use_dropped_alarms": alarms, "use_steady_hours": steady_us / (3600 * SECOND_US)}


def _measured(pods: list[tuple[UseReading, ...]], rule: IdleRule) -> dict[str, float]:
    found = spells = false = 0
    for readings in pods:
        reported = list(_reports(readings, rule))
        for spell in _spells(readings):
            if spell.last_us - spell.first_us >= rule.limit_us:
                spells += 1
                latest_us = spell.first_us + rule.limit_us + LATE_US
                found += any(spell.first_us <= at_us <= latest_us for at_us in reported) or spell.last_us < latest_us
        false += sum(_is_false(at_us, readings, rule) for at_us in reported)
    return {"idle_found_pct": 100 * found / spells, "idle_false": false, "idle_spells": spells}


def _reports(readings: tuple[UseReading, ...], rule: IdleRule) -> Iterator[int]:
    """The times at which a device was reported idle."""
    state = IdleState()
    for reading in readings:
        before, state = state, state.after(reading, rule)
        if state.is_idle(rule) and not before.is_idle(rule):
            yield reading.at_us


def _spells(readings: tuple[UseReading, ...]) -> Iterator[Spell]:
    first_us = last_us = None
    for reading in readings:
        if reading.utilization_pct is None:
            continue
        is_over = reading.utilization_pct > 0 or (last_us is not None and reading.at_us - last_us > GAP_US)
        if is_over and first_us is not None and last_us is not None:
            yield Spell(first_us, last_us)
            first_us = None
        if reading.utilization_pct == 0:
            first_us, last_us = reading.at_us if first_us is None else first_us, reading.at_us
    if first_us is not None and last_us is not None:
        yield Spell(first_us, last_us)


def _is_false(at_us: int, readings: tuple[UseReading, ...], rule: IdleRule) -> bool:
    """Whether the device was used within the limit, or not measured for that long since its last use: nothing is known
    between two readings more than three minutes apart (two missing ones in this recording)."""
    known = [one for one in readings if one.at_us <= at_us and one.utilization_pct is not None]
    if any(one.utilization_pct for one in known if one.at_us >= at_us - rule.limit_us):
        return True
    since = known[max((place + 1 for place, one in enumerate(known) if one.utilization_pct), default=0) :]
    gaps_us = [later.at_us - earlier.at_us for earlier, later in pairwise(since)]
    return sum(gap_us for gap_us in gaps_us if gap_us <= MISSING_US) < rule.limit_us


def _pods() -> Iterator[tuple[int, Iterator[UseReading]]]:
    from pyarrow.parquet import read_table

    table = read_table(FILE, columns=["pod", "at_s", "gpu_util_pct", "gpu_memory_bytes"])
    rows = sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))
    for pod, of_pod in groupby(rows, key=itemgetter(0)):
        own = list(of_pod)
        # The size of the device is not in the recording; its maximum use stands for it.
        total = max(0, *(memory for *_, memory in own))
        yield pod, (_reading(at_s, used, memory, total) for _, at_s, used, memory in own)


def _reading(at_s: int, used: float | None, memory: int, total: int) -> UseReading:
    return UseReading(
        at_us=at_s * SECOND_US,
        utilization_pct=None if used is None or isnan(used) else used,
        memory_bytes=None if memory < 0 else memory,
        memory_bytes_total=total,
    )
