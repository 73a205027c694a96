"""Living demo of a server: decides whether it runs, makes its week of history, and keeps its load running."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from aliquot.app.running import Running
from aliquot.clock import SystemClock
from aliquot.errors import ConfigurationError
from aliquot.execution.devices.node import demo_cluster, found
from aliquot.settings import Settings
from aliquot.store.cluster_mark import MARK_FILE
from aliquot.store.open import SQLITE_FILE, choose_database
from aliquot_schema.cluster.agents import Agent

if TYPE_CHECKING:
    from aliquot.demo.week import GeneratedWeek

log: Final = logging.getLogger("aliquot.demo")

FOLDER: Final = "demo"
"""Within the data folder, so that nothing invented ever gets into a real cluster."""


def with_demo(settings: Settings) -> Settings:
    """The settings of the living demo if it is asked for, or `auto` and nothing else is here; else as they are.

    Raises:
        ConfigurationError: the living demo is combined with settings that it has its own of.
    """
    others = _others(settings)
    if settings.demo_live == "auto":
        is_new = not (settings.data_folder / SQLITE_FILE).exists()
        if settings.demo or others or not is_new or found().gpus:
            return settings.model_copy(update={"demo_live": "no"})
    if settings.demo_live == "no":
        return settings
    if others:
        raise ConfigurationError(
            f"demo-live: the living demo has agents and a database of its own; leave out {', '.join(others)}"
        )
    own = {"demo": True, "demo_live": "yes", "data_folder": settings.data_folder / FOLDER}
    if "log_level" not in settings.model_fields_set:
        own["log_level"] = "warning"  # the load would push the address to sign in at off the screen
    return settings.model_copy(update=own)


def _others(settings: Settings) -> list[str]:
    """Names of the settings that say which agents or which database a server has."""
    given = {
        "accelerators": bool(settings.accelerators),
        "agents": bool(settings.agents),
        "database": settings.database is not None,
        "executor": settings.executor != "local",
        "no-local-agents": not settings.local_agents,
    }
    return [name for name, is_given in given.items() if is_given]


async def begin_demo(settings: Settings) -> "GeneratedWeek | None":
    """Make the week of history of a new living demo; None for all other servers, and after the first start.

    Raises:
        StoreUnavailable: the database cannot be written.
    """
    if settings.demo_live != "yes" or (settings.data_folder / MARK_FILE).exists():
        return None
    # Imported here: other servers do without it.
    from aliquot.demo.week import WeekGenerator

    clock = SystemClock()
    database = choose_database("", data_folder=settings.data_folder, now_us=clock.now_us)
    return await WeekGenerator(database, _agents(), until_us=clock.now_us()).run()


@asynccontextmanager
async def demo_kept(running: Running, settings: Settings, week: "GeneratedWeek | None") -> AsyncIterator[None]:
    """Keep the living demo's load running while the context is open, and store the readings of its week."""
    if settings.demo_live != "yes":
        yield
        return
    from aliquot.demo.load import DemoLoad

    load = DemoLoad(running.cases, seed=running.cases.state.revision)
    tasks = [asyncio.create_task(load.run(), name="demo load")]
    if week is not None:
        tasks.append(asyncio.create_task(_store_readings(settings, week), name="demo readings"))
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, Exception):
                log.error("the living demo failed", exc_info=outcome)
        await load.close()


async def _store_readings(settings: Settings, week: "GeneratedWeek") -> None:
    """In a thread, while the server serves already."""
    from aliquot.demo.readings import store_readings
    from aliquot.store.timeseries.history_store import place_of

    make = place_of("", data_folder=settings.data_folder, now_us=lambda: week.until_us)
    await asyncio.to_thread(lambda: asyncio.run(store_readings(week, make())))


def _agents() -> tuple[Agent, ...]:
    """The agents of the demo cluster, as they will join."""
    return tuple(
        Agent(
            id=one.agent_id,
            version=0,
            node_id=one.node.node_id,
            hostname=one.node.hostname,
            devices=one.devices.discover(held=()),
            slot_types=one.devices.slot_types(),
            attributes=one.devices.attributes(),
            boot_id=one.node.boot_id,
            registered_us=0,
            state_changed_us=0,
        )
        for one in demo_cluster()
    )
