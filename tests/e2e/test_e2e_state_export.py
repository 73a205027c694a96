"""The state export that a server writes by itself."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from aliquot.cli.acceptance.processes import OwnServer
from aliquot.cli.state_export import keep_exported
from e2e_sessions import submit, until, until_state

pytestmark = pytest.mark.anyio
FILES = ["cluster_state.json", "gpu_allocation.json", "job_queue.json", "orchestrator_state.json"]


async def until_fact(look: Callable[[], bool]) -> None:
    async def found() -> bool:
        return look()

    await until(found)


def read(folder: Path) -> dict[str, Any]:
    return {path.name: json.loads(path.read_text()) for path in folder.iterdir()}


@pytest.mark.parametrize("way", ["flag", "setting"])
async def test_a_server_writes_its_state(tmp_path: Path, way: str) -> None:
    folder = tmp_path / "new" / "state"
    settings = tmp_path / "aliquot.toml"
    settings.write_text(f'state-export = "{folder}"\ndemo = true\n')
    given = OwnServer("--demo", "--state-export", str(folder))
    async with given if way == "flag" else OwnServer(environment={"ALIQUOT_CONFIG": str(settings)}):
        await until_fact(lambda: folder.is_dir() and sorted(path.name for path in folder.iterdir()) == FILES)
        found = read(folder)
    assert len(found["gpu_allocation.json"]["agents"]) == 2
    assert found["orchestrator_state.json"]["policy"]["order"] == "fair_share"


async def test_an_export_folder_that_cannot_be_created_is_refused_at_startup(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    server = OwnServer("--demo", "--state-export", str(tmp_path / "file" / "state"))
    with pytest.raises(Exception, match=r"state-export: .*Not a directory"):
        async with server:
            raise AssertionError("it started")


async def test_the_export_follows_the_state_and_survives_faults(
    two_gpus: OwnServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "state"
    token = (two_gpus.data_folder / "token").read_text().strip()
    caplog.set_level("INFO")
    async with httpx.AsyncClient(base_url=two_gpus.url) as http, two_gpus.client() as client:

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            asked = Request(scope, receive)
            answer = await http.post(asked.url.path, content=await asked.body(), headers=asked.headers)
            await Response(answer.content, media_type="application/json")(scope, receive, send)

        exporting = asyncio.create_task(keep_exported(app, token=token, folder=folder, every_s=0.05))
        await until_fact(lambda: (folder / FILES[-1]).exists())
        running = await submit(client, "exec sleep 600", {"cuda.shares": "1.2"})
        await until_state(client, running, "running")
        await until_fact(lambda: [one["id"] for one in read(folder)[FILES[-1]]["active"]] == [running])
        folder.rename(tmp_path / "moved")
        folder.touch()
        await until_fact(lambda: "cannot be exported" in caplog.text)
        folder.unlink()
        await until_fact(lambda: "is exported to" in caplog.text)
        assert sorted(read(folder)) == FILES
        exporting.cancel()
    assert caplog.text.count("cannot be exported") == 1
