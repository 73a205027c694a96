"""Observe mode with a real agent: it shows GPU users, and starts and stops nothing."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from aliquot.cli.acceptance.processes import OwnAgent, OwnServer
from aliquot.client import Client
from cli_users import CliUser
from e2e_sessions import session, submit, until, until_state
from own_processes import foreign_process

pytestmark = pytest.mark.anyio

START = "/orchestrator/start"


def place(machine: Path) -> dict[str, str]:
    return {"LD_LIBRARY_PATH": str(machine), "PYTHONPATH": str(machine)}


async def post(server: OwnServer, path: str) -> httpx.Response:
    async with httpx.AsyncClient(base_url=server.url, trust_env=False) as http:
        return await http.post(path, headers={"Authorization": f"Bearer {server.token}"})


async def until_stopped(client: Client, session_id: str) -> None:
    """Wait until a session waits for stopped scheduling."""

    async def is_told() -> bool:
        found = await session(client, session_id)
        return found["state"] == "queued" and (found["waits"] or {}).get("reason") == "stopped"

    await until(is_told)


async def test_an_observing_server_reports_gpu_users_and_starts_nothing(machine: Path, tmp_path: Path) -> None:
    async with OwnServer("--no-local-agents", "--observe", environment=place(machine)) as server:
        agent = OwnAgent(server, "rack-1", environment=place(machine))
        person = CliUser.at(server, home=tmp_path)
        try:
            await agent.start()
            async with foreign_process(machine, gpu=0) as account, server.client() as client:
                waiting = await submit(client, "exec sleep 600", {"cuda.device": "1"})

                async def report() -> dict[str, Any] | None:
                    found = (await asyncio.to_thread(person.run, "report", "--json")).json
                    people = found["week"]["people"] if found["week"] else []
                    return found if any(one["gpu_hours"] > 0 for one in people) else None

                found = await until(report)
                first, second = found["gpus"]
                ((who),) = first["people"]
                assert (who["user"], who["processes"], who["memory_bytes"]) == (account, 1, 3 << 30)
                assert second["people"] == []
                ((week),) = found["week"]["people"]
                assert (week["user"], week["idle_hours"]) == (account, 0)
                assert found["week"]["gpu_hours"] > week["gpu_hours"]
                assert account in person.run("report").out
                person.run("report", "--html", "report.html")
                assert account in (tmp_path / "report.html").read_text()
                assert (await session(client, waiting))["state"] == "queued"
        finally:
            await agent.stop()


async def test_turning_observe_mode_on_or_off_starts_and_stops_no_session(machine: Path) -> None:
    async with OwnServer("--no-local-agents", environment=place(machine)) as server:
        agent = OwnAgent(server, "rack-1", environment=place(machine))
        usual = server._options
        try:
            await agent.start()
            async with server.client() as client:
                running = await submit(client, "exec sleep 600", {"cuda.device": "1"})
                await until_state(client, running, "running")
            await server.stop()
            server._options = (*usual, "--observe")
            await server.start()
            async with server.client() as client:
                waiting = await submit(client, "exec sleep 600", {"cuda.device": "1"})
                await until_stopped(client, waiting)
                refused = await post(server, START)
                assert refused.status_code == httpx.codes.UNPROCESSABLE_ENTITY
                assert "start it without --observe first" in refused.text
                assert (await session(client, running))["state"] == "running"
            await server.stop()
            server._options = usual
            await server.start()
            async with server.client() as client:
                await until_stopped(client, waiting)
                assert (await post(server, START)).status_code == httpx.codes.OK
                await until_state(client, waiting, "running")
                assert (await session(client, running))["attempt"] == 1
        finally:
            await agent.stop()
