"""The service without HTTP: the orchestrator with agents that are not real, on SQLite in a temporary folder."""

import asyncio
import gc
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

# The fake executor is shared with the tests; only pytest adds their support folder.
sys.path.append(str(Path(__file__).parents[1] / "support"))

from aliquot.app.composition import SWITCH_INTERVAL_S
from aliquot.cli.serve import GcTuning
from aliquot.clock import RandomIds, SystemClock
from aliquot.service.foresight.forecasting import ForecastPlan
from aliquot.store.open import open_store
from lone_service import Orchestrator, Ports, load_state
from service_fakes import FakeExecutor


def use_server_settings() -> None:
    """Give this process the interpreter settings of a server."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.collect()
    GcTuning().begin()


@asynccontextmanager
async def orchestrator(executor: FakeExecutor) -> AsyncIterator[Orchestrator]:
    """A running orchestrator; all agents of the executor have joined."""
    clock = SystemClock()
    with TemporaryDirectory(prefix="aliquot-bench-") as folder:
        store = open_store("", data_folder=Path(folder), now_us=clock.now_us)
        state, loaded = await load_state(store)
        ports = Ports(
            store=store,
            executor=executor,
            clock=clock,
            ids=RandomIds(),
            ledger=store.ledger,
            forecasts=ForecastPlan(store=store.forecasts, relay=None, events=store),
        )
        service = Orchestrator(ports, state=state, loaded=loaded, grace_ms=1000)
        running = asyncio.create_task(service.run())
        try:
            await executor.start()
            await service.wait_for_agents(frozenset(executor.agents))
            yield service
            assert not running.done(), running.exception()
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
            await service.close()
            await store.close()
