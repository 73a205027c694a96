"""The synchronous Python client against a real server."""

from collections.abc import Callable
from contextlib import closing
from typing import TypeVar

import anyio
import pytest
from anyio import to_thread

from aliquot.cli.acceptance.processes import OwnServer
from aliquot.client import BlockingClient, CallFailed, Client, Refused
from aliquot.client.generated.enums import SessionState

pytestmark = pytest.mark.anyio

T = TypeVar("T")


async def _with(server: OwnServer, work: Callable[[BlockingClient], T]) -> T:
    def run() -> T:
        with BlockingClient(server.url, server.token) as client:
            return work(client)

    return await to_thread.run_sync(run)


async def test_a_session_is_submitted_followed_and_waited_for(two_gpus: OwnServer) -> None:
    def course(client: BlockingClient) -> None:
        session = client.submit("echo $GREETING", slots={"cpu": 1, "cuda.shares": 0.2}, environment={"GREETING": "hi"})
        assert "".join(chunk.text for chunk in client.logs(session.id)) == "hi\n"
        assert client.wait(session.id).state is SessionState.COMPLETED
        kinds: list[str] = []
        with closing(client.events(after=0)) as events:
            while not kinds or kinds[-1] != "session.completed":
                kinds.append(next(events).kind)
        assert kinds[0] == "session.queued"

    await _with(two_gpus, course)


def divided(total: int, parts: int) -> dict[str, float]:
    import math  # a sent function does its own imports

    print("computing")
    return {"part": math.floor(total / parts)}


async def test_map_runs_a_command_or_a_function_as_one_task_per_parameter_set(two_gpus: OwnServer) -> None:
    def course(client: BlockingClient) -> None:
        parameters = [{"rate": 0.1, "name": "a b"}, {"rate": 0.2, "name": "$HOME"}]
        array = client.map(["echo", "{rate}", "{name}"], parameters, slots={"cpu": 1})
        assert client.wait(array.id).state is SessionState.COMPLETED
        printed = ["".join(chunk.text for chunk in client.logs(f"{array.id}_{index}")) for index in (0, 1)]
        assert printed == ["0.1 a b\n", "0.2 $HOME\n"]

    await _with(two_gpus, course)
    async with Client(two_gpus.url, two_gpus.token) as client:
        calls = await client.map(divided, [{"total": 9, "parts": 2}, {"total": 8, "parts": 4}], slots={"cpu": 1})
        found = {index: result async for index, result in calls}
        assert found == {0: {"part": 4}, 1: {"part": 2}}
        assert await calls.results() == [{"part": 4}, {"part": 2}]
        assert await calls.futures[0].done()
        failing = await client.map(divided, [{"total": 1, "parts": 0}], slots={"cpu": 1})
        with pytest.raises(CallFailed, match="ZeroDivisionError"):
            await failing.futures[0]
        said = client.future((await client.submit(["echo", "hello"], slots={"cpu": 1})).id)
        assert await said == "hello\n"


async def test_output_is_followed_over_a_restart_of_the_server(two_gpus: OwnServer) -> None:
    gate = two_gpus.folder / "gate"
    begun = anyio.Event()
    lines: list[str] = []

    def follow(client: BlockingClient) -> None:
        session = client.submit(
            f"echo one; while [ ! -e {gate} ]; do sleep 0.05; done; echo two", slots={"cpu": 1}
        )  # fmt: skip
        for chunk in client.logs(session.id):
            lines.append(chunk.text)
            if chunk.text:
                anyio.from_thread.run_sync(begun.set)

    async with anyio.create_task_group() as group:
        group.start_soon(_with, two_gpus, follow)
        await begun.wait()
        await two_gpus.stop()
        gate.touch()
        await two_gpus.start()
    assert "".join(lines) == "one\ntwo\n"


async def test_a_lease_holds_gpus_while_its_block_runs(two_gpus: OwnServer) -> None:
    def held(client: BlockingClient) -> list[str]:
        (agent,) = client.agents().edges
        return sorted(device.used for device in agent.node.devices if device.kind == "cuda")

    def course(client: BlockingClient) -> None:
        with client.lease(shares=0.5, lease_s=60) as gpus:
            assert len(gpus.gpu_ids) == 1
            assert held(client) == ["0.00", "0.50"]
            with pytest.raises(Refused), client.lease(shares=2, lease_s=60):
                pytest.fail("there are not two whole GPUs left")
        assert held(client) == ["0.00", "0.00"]
        with pytest.raises(ZeroDivisionError), client.lease(shares=2, lease_s=60):
            raise ZeroDivisionError
        assert held(client) == ["0.00", "0.00"]

    await _with(two_gpus, course)
