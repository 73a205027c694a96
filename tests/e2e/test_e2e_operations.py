"""Operator tools outside the API: inspecting a running server, and the database of a stopped one."""

import asyncio
import json
import shutil
import subprocess
import sys
from typing import Any

import pytest

from aliquot.cli.acceptance.checks import kill_mentioning
from aliquot.cli.acceptance.processes import OwnServer, ServerFailed
from e2e_sessions import session, submit, until, until_state

pytestmark = pytest.mark.anyio

DOCTOR = "{ doctor { differences { kind subject since repair } asked silent } }"


async def aliquot(*arguments: str) -> tuple[int, str, str]:
    """Run a command; (exit code, output, errors)."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "aliquot", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def look_into_a_copy(asking: tuple[str, ...], running: str) -> None:
    """Use a live copy."""
    code, path, _ = await aliquot("db", "copy", *asking)
    assert code == 0
    at = ("--database", f"sqlite:///{path.strip()}")
    assert (await aliquot("db", "check", *at))[1] == "intact\n"
    assert f"lease.granted  {running}.1.0" in (await aliquot("audit", "log", "--kind", "lease.granted", *at))[1]


async def test_a_server_is_examined_exported_stopped_audited_and_replayed(two_gpus: OwnServer) -> None:
    server, asking = two_gpus, ("--server", two_gpus.url, "--token-file", str(two_gpus.data_folder / "token"))
    async with server.client() as client:
        running = await submit(client, "exec sleep 600", {"cuda.shares": "1.2"})
        await until_state(client, running, "running")
        waiting = await submit(client, "true", {"cuda.device": "2"})
        code, out, _ = await aliquot("doctor", *asking)
        assert (code, out) == (0, "1 agent examined, 0 differences\n")
        files = server.folder / "state"
        assert (await aliquot("state", "export", str(files), *asking))[0] == 0
        read = {path.name: json.loads(path.read_text()) for path in files.iterdir()}
        await look_into_a_copy(asking, running)
    assert sorted(read) == ["cluster_state.json", "gpu_allocation.json", "job_queue.json", "orchestrator_state.json"]
    assert read["cluster_state.json"]["ray"] is None  # this server does not use Ray
    assert [entry["session"]["id"] for entry in read["job_queue.json"]["queue"]] == [waiting]
    assert read["orchestrator_state.json"]["state"] == "running"
    assert read["orchestrator_state.json"]["policy"]["order"] == "fair_share"
    assert all(isinstance(agent["gpu_alloc_map"], dict) for agent in read["cluster_state.json"]["agents"])
    assert [session["id"] for session in read["orchestrator_state.json"]["active"]] == [running]
    (allocation,) = read["gpu_allocation.json"]["agents"].values()
    assert sorted(allocation["map"].values()) == ["0.60", "0.60"]
    device = next(name for name, amount in allocation["map"].items() if amount == "0.60")
    at = ("--data-folder", str(server.data_folder))
    refused = await aliquot("audit", "verify", *at)
    assert (refused[0], f"another server (process {server.pid}) uses it" in refused[2]) == (2, True)
    await server.stop()
    assert (await aliquot("audit", "verify", *at))[1].startswith("intact: ")
    assert (await aliquot("db", "check", *at))[1] == "intact\n"
    held = await aliquot("audit", "device", device, *at)
    assert f"session {running}  0.6 GPU, pass " in held[1]
    code, out, _ = await aliquot("replay", "--last", "10", *at)
    assert (code, out.endswith(" 0 differences\n")) == (0, True)


async def test_the_state_export_command_keeps_writing_files_across_a_server_restart(two_gpus: OwnServer) -> None:
    server, files = two_gpus, two_gpus.folder / "state"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "aliquot", "state", "export", str(files), "--every", "0.2s"),
        *("--server", server.url, "--token-file", str(server.data_folder / "token")),
        stderr=asyncio.subprocess.DEVNULL,
    )

    async def knows(session_id: str) -> None:
        async def look() -> bool:
            file = files / "job_queue.json"
            return file.exists() and session_id in file.read_text()

        assert await until(look)

    try:
        for _ in range(2):
            async with server.client() as client:
                await knows(await submit(client, "true", {"cuda.device": "2"}, held=True))
            await server.stop()
            await server.start()
        assert process.returncode is None
    finally:
        process.terminate()
        await process.wait()


async def test_a_job_without_processes_is_found_and_its_devices_are_released(two_gpus: OwnServer) -> None:
    server = two_gpus
    async with server.client() as client:
        session_id = await submit(client, "exec sleep 600", {"cuda.device": "2"})
        await until_state(client, session_id, "running")
    await server.stop()
    kill_mentioning(str(server.folder))
    (folder,) = server.data_folder.glob(f"agents/*/**/{session_id}.1.0")
    shutil.rmtree(folder)
    await server.start()
    async with server.client() as client:

        async def seen() -> Any:
            found = (await client.execute(DOCTOR))["doctor"]["differences"]
            return found or None

        (difference, *_) = await until(seen)
        assert (difference["kind"], difference["subject"]) == ("lease_without_process", f"{session_id}.1.0")

        async def again() -> Any:
            found = await session(client, session_id)
            return found["attempt"] == 2 and found["state"] == "running"

        assert await until(again), "its devices were free again, and it is tried once more"

        async def well() -> bool:
            return (await client.execute(DOCTOR))["doctor"]["differences"] == []

        assert await until(well)


async def test_a_copied_data_folder_is_refused_with_one_message(two_gpus: OwnServer) -> None:
    async with two_gpus.client() as client:
        running = await submit(client, "exec sleep 600", {"cuda.shares": "1"})
        await until_state(client, running, "running")
    await two_gpus.stop()
    original, two_gpus.data_folder = two_gpus.data_folder, two_gpus.folder / "copy"
    await asyncio.to_thread(subprocess.run, ["cp", "-a", original, two_gpus.data_folder], check=True)
    with pytest.raises(ServerFailed, match=f"aliquot cannot start: .* is a copy, and kernel {running}") as refused:
        await two_gpus.start()
    assert "CRITICAL" not in str(refused.value)
    two_gpus.data_folder = original
    await two_gpus.start()
