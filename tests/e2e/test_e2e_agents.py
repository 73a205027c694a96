"""A server without agents, and one whose agent is restarted."""

import asyncio
import gc
import logging
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from agent_harness import restart_agent
from aliquot.app.composition import Server, serving
from aliquot.cli.acceptance.processes import OwnServer
from aliquot.cli.listener import Listener, bound_socket
from aliquot.client import Client
from aliquot.service.ports import LoadedRows
from aliquot.settings import read_settings
from e2e_sessions import alloc_map, session, submit, until, until_map, until_state

pytestmark = pytest.mark.anyio

TWO_GPUS = Path(__file__).parents[1] / "data" / "accelerators" / "two_gpus.toml"
FIRST = "c59395cd-ac91-4cd3-a1b0-3d2568aa2d01"
SECOND = "c59395cd-ac91-4cd3-a1b0-3d2568aa2d02"
IDLE = {FIRST: "0.00", SECOND: "0.00"}


async def test_a_session_submitted_without_agents_waits_with_that_reason() -> None:
    async with OwnServer("--no-local-agents") as server, server.client() as client:
        waiting = await submit(client, "true", {"cuda.shares": "0.5"})

        async def reason() -> str | None:
            waits = (await session(client, waiting))["waits"]
            return waits["reason"] if waits else None

        assert await until(reason) == "cluster_unavailable"


async def test_the_allocation_map_is_the_same_after_an_agent_restart() -> None:
    async with served() as (server, client):
        (agent_id,) = server.running.cases.state.agents
        ids = [await submit(client, "exec sleep 600", {"cuda.shares": shares}) for shares in ("0.2", "1.2")]
        for session_id in ids:
            await until_state(client, session_id, "running")
        held = await alloc_map(client, agent_id)
        assert held == {FIRST: "0.60", SECOND: "0.80"}
        side = server.running.side()
        assert side is not None
        await restart_agent(side.local, agent_id)
        await until_map(client, agent_id, held)
        third = await submit(client, "true", {"cuda.shares": "0.4"})
        await until_state(client, third, "completed")
        for session_id in ids:
            assert (await session(client, session_id))["state"] == "running"
            await client.execute(f'mutation {{ cancel_session(input: {{id: "{session_id}"}}) {{ __typename }} }}')
        await until_map(client, agent_id, IDLE)


async def test_a_server_frees_the_rows_it_loaded_at_startup() -> None:
    with own_process(), TemporaryDirectory() as folder:
        settings = read_settings(data_folder=Path(folder), port=0, accelerators=(TWO_GPUS,))
        async with serving(settings) as server:
            assert server.running.cases.state.agents
        async with serving(settings):
            # Loaded rows of sessions that are evicted later must not stay in memory.
            assert [one for one in gc.get_objects() if type(one) is LoadedRows] == []


@contextmanager
def own_process() -> Iterator[None]:
    """Restore the global state that a server changes in its process."""
    access, turns_s = logging.getLogger("uvicorn.access"), sys.getswitchinterval()
    handlers, propagates = access.handlers[:], access.propagate
    yield
    sys.setswitchinterval(turns_s)
    access.handlers, access.propagate = handlers, propagates


@asynccontextmanager
async def served() -> AsyncIterator[tuple[Server, Client]]:
    """A server in this process with a real listener, so that tests can reach its agents."""
    with own_process(), TemporaryDirectory() as folder:
        os.chmod(folder, 0o711)  # jobs may run as another account
        settings = read_settings(data_folder=Path(folder), port=0, accelerators=(TWO_GPUS,))
        async with serving(settings) as server:
            port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            listener = Listener(server, certificate=None, behind_proxy=False, on_started=port.set_result)
            listening = asyncio.create_task(listener.serve_until(server.failed, taken=[bound_socket(settings)]))
            try:
                async with Client(f"http://127.0.0.1:{await port}", server.token_file.read_text().strip()) as client:
                    yield server, client
            finally:
                listener.should_exit = True
                await listening
