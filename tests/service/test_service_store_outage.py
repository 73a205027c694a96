"""The store fails for a while: callers get an error, the server's work waits, and nothing is lost."""

from pathlib import Path

import pytest

from aliquot.service.ports import Batch, StoreUnavailable
from aliquot_schema.errors import Unavailable
from aliquot_schema.events import Event
from aliquot_schema.ids import AgentId, KernelId
from aliquot_schema.states import SessionState
from service_bench import CALLER, agent, service_on
from service_fakes import FakeExecutor

pytestmark = pytest.mark.anyio


async def test_a_database_outage_delays_changes_and_loses_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    executor = FakeExecutor([agent("a", devices=1)])
    async with service_on(tmp_path, executor) as bench:
        await bench.until(lambda: AgentId("a") in bench.state.reachable)
        session = await bench.submit(devices=1)
        await bench.until_state(session, SessionState.RUNNING)
        refused = []

        async def refuse(batch: Batch) -> tuple[Event, ...]:
            refused.append(batch.actor)
            raise StoreUnavailable("the disk is full")

        with monkeypatch.context() as outage:
            outage.setattr(bench.service.journal._store, "commit", refuse)
            executor.end_kernel(KernelId(f"{session}.1.0"), code=4)
            with pytest.raises(Unavailable):
                await bench.service.sessions.update_session_priority(CALLER, session, "high", None)
            await bench.until(lambda: refused.count("system:agents") >= 3)
        assert (await bench.until_state(session, SessionState.FAILED)).exit_code == 4
    assert caplog.text.count("system:agents: the store cannot be written, retrying: the disk is full") == 1
