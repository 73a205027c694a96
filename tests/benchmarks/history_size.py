"""Size of history: bytes of a month of 8,000 devices measured every two seconds, and CPU time of a reading.

A day of some agents goes through the real store with a simulated clock, and is extrapolated.
"""

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from history_load import samples
from registry import Key, scenario

from aliquot.service.history.grids import covering
from aliquot.service.history.measures import DeviceSample, MeasureKind
from aliquot.store.timeseries.history_store import FILE, HistoryDatabase, HistoryPlan, place_of
from aliquot.store.timeseries.tiers import DAY_US, HOUR_US, TierRetention

AGENTS: Final = 4
DEVICES: Final = 8
DEVICES_ALL: Final = 8_000
DAYS: Final = 30
START_US: Final = 20_000 * DAY_US
AT_ONCE: Final = 2_000


@dataclass
class Hands:
    """A clock that is set by hand."""

    now: int = START_US

    def now_us(self) -> int:
        return self.now


@scenario(
    Key(
        name="history_month_bytes",
        what="disk of a month's history, 8,000 devices every 2 s: raw for a day, minutes for 30, hours",
        reach="<= 20000000000",
    ),
    Key(name="history_cpu_us", what="CPU of keeping one reading of 8 devices, summing up included", reach="<= 200"),
    Key(name="history_read_s", what="a day of one agent's 8 devices, 300 points", reach="<= 0.5"),
)
async def history() -> dict[str, float]:
    """Raw samples and minutes are measured by the file's size before and after."""
    taken = list(samples(agents=AGENTS, devices=DEVICES, hours=24, start_us=START_US, seed=1))
    with TemporaryDirectory(prefix="aliquot-bench-") as folder:
        clock = Hands()
        began = time.process_time()
        raw = await _keep(Path(folder), clock, taken)
        clock.now = START_US + DAY_US + 2 * HOUR_US
        summed = await _sum_up(Path(folder), clock) - raw
        cpu_s = time.process_time() - began
        read_s = await _read(Path(folder), clock)
    times = DEVICES_ALL / (AGENTS * DEVICES)
    month = (raw + summed * DAYS) * times
    print(
        f"  {len(taken):,} readings | a day: raw {raw * times / 1e9:.2f} GB, summed up {summed * times / 1e9:.3f} GB",
        file=sys.stderr,
        flush=True,
    )
    return {"history_month_bytes": month, "history_cpu_us": cpu_s / len(taken) * 1e6, "history_read_s": read_s}


def _store(folder: Path, clock: Hands) -> HistoryDatabase:
    return HistoryDatabase(
        HistoryPlan(
            make_database=place_of("", data_folder=folder, now_us=clock.now_us),
            kept=TierRetention(raw_us=None),
            interval_s=2.0,
            now_us=clock.now_us,
            wall_us=clock.now_us,
        )
    )


async def _keep(folder: Path, clock: Hands, taken: list[DeviceSample]) -> int:
    store = _store(folder, clock)
    await store.open()
    for first in range(0, len(taken), AT_ONCE):
        for sample in taken[first : first + AT_ONCE]:
            store.take(sample)
        clock.now = taken[min(first + AT_ONCE, len(taken)) - 1].at_us
        await store.gathered(
            MeasureKind.QUEUE, "", covering(clock.now, clock.now + 1, step_s=1)
        )  # all waiting data is stored
    await store.close()
    return (folder / FILE).stat().st_size


async def _sum_up(folder: Path, clock: Hands) -> int:
    store = _store(folder, clock)
    await store.open()
    await store.maintain()
    await store.close()
    return (folder / FILE).stat().st_size


async def _read(folder: Path, clock: Hands) -> float:
    store = _store(folder, clock)
    await store.open()
    began = time.perf_counter()
    grid = covering(START_US, START_US + DAY_US, step_s=300)
    found = await store.gathered(MeasureKind.DEVICES, "agent-1", grid)
    took_s = time.perf_counter() - began
    await store.close()
    assert len(found) == DEVICES
    return took_s
