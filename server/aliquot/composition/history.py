"""History: where measurements are kept, beside the durable state."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aliquot.clock import SystemClock
from aliquot.composition.running import Running
from aliquot.settings import Settings
from aliquot.store.history.places import place_of
from aliquot.store.history.store import HistoryPlan, KeptHistory


@asynccontextmanager
async def history_kept(running: Running, settings: Settings) -> AsyncIterator[None]:
    """Keep history from here on to the end; what is in memory then is written."""
    cases = running.cases
    if not settings.history:
        yield
        return
    # A clock of its own: the service's never goes back because one thread alone reads it.
    clock = SystemClock()
    store = KeptHistory(
        HistoryPlan(
            make_database=place_of(settings.database or "", data_folder=settings.data_folder, now_us=clock.now_us),
            kept=settings.history_kept,
            interval_s=settings.readings_interval_s,
            now_us=clock.now_us,
            wall_us=clock.wall_us,
        )
    )
    await store.open()
    cases.history.keep(store)
    try:
        yield
    finally:
        cases.history.keep(None)
        await store.close()
