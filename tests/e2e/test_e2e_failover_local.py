"""Servers with local agents on a shared database: one leads, a second one refuses to start."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from aliquot.cli.acceptance.cluster_view import until_joined
from aliquot.cli.acceptance.processes import OwnServer
from e2e_sessions import submit, until_state

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


async def test_a_second_server_with_local_agents_is_refused_with_the_reason(database_url: str, tmp_path: Path) -> None:
    demo = ("--demo", "--database", database_url)
    async with OwnServer(*demo) as server, server.client() as client:
        await until_joined(client, agents=2)
        done = await submit(client, "exit 3", {"cuda.device": "1"})
        assert (await until_state(client, done, "failed"))["exit_code"] == 3
        serve = (sys.executable, "-m", "aliquot", "serve", "--port", "0", "--data-folder", str(tmp_path), *demo)
        second = await asyncio.to_thread(
            subprocess.run, serve, capture_output=True, text=True, timeout=120, check=False
        )
        assert second.returncode == 2
        assert f"{server.url} leads this database" in second.stderr
        runs = await submit(client, "exec sleep 600", {"cuda.device": "1"})
        await until_state(client, runs, "running")
        await server.kill()
        await server.start()
        await until_joined(client, agents=2)
        assert (await until_state(client, runs, "running"))["attempt"] == 1
