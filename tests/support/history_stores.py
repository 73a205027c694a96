"""History stores for tests, and their samples."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aliquot.service.history.measures import AgentDevices, DeviceSample, QueueSample
from aliquot.store.timeseries.history_store import HistoryDatabase, HistoryPlan, place_of
from aliquot.store.timeseries.tiers import TierRetention
from aliquot_schema.ids import AgentId, DeviceId, NodeId
from store_places import Place

SECOND = 1_000_000
HOUR = 3600 * SECOND
DAY = 24 * HOUR
T0 = 20_000 * DAY
"""Midnight, the start of most tests."""
AGENT = "n561"
"""Its windows end at multiples of five minutes."""


@dataclass
class ManualClock:
    """A clock that a test sets."""

    now: int = T0

    def now_us(self) -> int:
        return self.now


@dataclass
class HistoryStage:
    """History stores on one database, opened in turn or together."""

    place: Place
    clock: ManualClock = field(default_factory=ManualClock)
    kept: TierRetention = field(default_factory=TierRetention)
    interval_s: float = 2.0

    @asynccontextmanager
    async def store(self, *, kept: TierRetention | None = None) -> AsyncIterator[HistoryDatabase]:
        """An open store."""
        found = HistoryDatabase(
            HistoryPlan(
                make_database=place_of(self.place.url, data_folder=self.place.folder, now_us=self.clock.now_us),
                kept=kept or self.kept,
                interval_s=self.interval_s,
                now_us=self.clock.now_us,
                wall_us=self.clock.now_us,
            )
        )
        await found.open()
        try:
            yield found
        finally:
            await found.close()


def roster(agent: str = AGENT, devices: int = 2, *, node: str = "") -> AgentDevices:
    """An agent with devices `<agent>-0`, ..."""
    return AgentDevices(
        agent_id=AgentId(agent),
        node_id=NodeId(node or agent),
        device_ids=tuple(DeviceId(f"{agent}-{index}") for index in range(devices)),
        counted=(True,) * devices,
    )


def sample(of: AgentDevices, at_us: int, load: float | None, *, held: float = 1000.0) -> DeviceSample:
    """The first device has this load; the second and so on a half, a third of it, ..."""
    values = tuple(
        (None if load is None else load / (index + 1), 2.0**30 * (index + 1), 40.0, 300.0, held)
        for index in range(len(of.device_ids))
    )
    return DeviceSample(roster=of, at_us=at_us, values=values)


def queue_sample(at_us: int, **numbers: int) -> QueueSample:
    """Omitted numbers are zero."""
    known = {"pending": 0, "running": 0, "submitted": 0, "started": 0, "ended": 0} | numbers
    return QueueSample(at_us=at_us, waited_s=2.0 * known["started"], **known)


def fill(
    store: HistoryDatabase, of: AgentDevices, *, load: Callable[[int], float | None], first_us: int, last_us: int
) -> None:
    """A sample every two seconds; `load` gets the seconds since the first."""
    for at_us in range(first_us, last_us, 2 * SECOND):
        store.take(sample(of, at_us, load((at_us - first_us) // SECOND)))
