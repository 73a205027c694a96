"""Several servers: which one an agent dials next, and how a follower redirects it."""

import asyncio
import errno
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent_harness import PATIENCE_S, AgentHarness, agent_config, wait_until
from aliquot.execution.remote.client import DOWN_ATTEMPTS, DOWN_S_MAX, AgentSender, Backoff, RemoteAgent, ServerList
from aliquot.execution.remote.codec import Channel
from aliquot.execution.remote.connection_file import connections
from aliquot.execution.remote.dialing import Unreachable, connection_fault, introduce, server_address
from aliquot.execution.remote.executor import RemoteExecutor, RemoteGateway
from aliquot.execution.remote.session import AgentSession, NotLeading, Refused
from aliquot_schema.cluster.agent_protocol import Welcome
from remote_in_memory import AGENT, KEY, QUICK, OneKey, hello, wire_pair

A, B, C = (f"https://{name}:8090" for name in "abc")


def ring(*urls: str) -> ServerList:
    return ServerList([server_address(url) for url in urls])


@pytest.mark.parametrize(
    ("answers", "dialled", "waits"),
    [
        pytest.param([""], "a a", [True], id="one server is dialled again after a wait"),
        pytest.param(["", ""], "a b a", [False, True], id="two servers in turns, with a wait between rounds"),
        pytest.param([C], "a c", [False], id="the one that is said to lead comes first"),
        pytest.param([C, "", ""], "a c b c", [False, False, True], id="the others are not left out"),
        pytest.param(["https://evil:8090"], "a b", [False], id="an address that nobody listed is not followed"),
        pytest.param(["no address"], "a b", [False], id="nor is what is none"),
        pytest.param([A], "a b", [False], id="nor is one that was tried in this round"),
    ],
)
def test_an_agent_dials_the_named_leader_next_or_the_next_server(
    answers: list[str], dialled: str, waits: list[bool]
) -> None:
    """`answers`: the leader named by each server dialled; empty: none."""
    names = dict.fromkeys([*dialled.split(), *(leader[8] for leader in answers if leader in (A, B, C))])
    on = ring(*(url for url in (A, B, C) if url[8] in names))
    seen = [on.current.host]
    waited = []
    for leader in answers:
        waited.append(on.advance(is_follower=bool(leader), leader=leader))
        seen.append(on.current.host)
    assert (" ".join(seen), waited) == (dialled, waits)


def test_a_welcome_ends_the_round_of_dialling() -> None:
    on = ring(A, B)
    assert not on.advance(is_follower=True, leader="")
    assert on.has_followers
    on.welcomed()
    assert not on.has_followers
    assert not on.advance(is_follower=False, leader="")
    assert on.advance(is_follower=False, leader="")


@pytest.mark.anyio
@pytest.mark.parametrize("leader", [None, B])
async def test_a_follower_names_the_leader(leader: str | None) -> None:
    door = RemoteGateway(OneKey(), executor=lambda: None, leader=lambda: leader)
    server, agent = wire_pair()
    meeting = asyncio.create_task(door.meet(server, agent_id=AGENT, key=KEY, on_joined=lambda: None))
    with pytest.raises(NotLeading) as refused:
        await introduce(Channel(agent), hello())
    assert refused.value.leader == (leader or "")
    assert (leader or "try again") in str(refused.value)
    await meeting
    assert server.code == 4421


@pytest.mark.anyio
async def test_a_gateway_with_an_executor_admits_agents_with_a_valid_key() -> None:
    executor = RemoteExecutor(keys=OneKey(), timing=QUICK, now_us=lambda: 1, epoch=7)
    door = RemoteGateway(OneKey(), executor=lambda: executor, leader=lambda: None)
    assert door.refusal(AGENT, "another key") is not None
    assert door.refusal(AGENT, KEY) is None
    server, agent = wire_pair()
    meeting = asyncio.create_task(door.meet(server, agent_id=AGENT, key=KEY, on_joined=lambda: None))
    welcome = await introduce(Channel(agent), hello(probe=True))
    assert welcome.epoch == 7
    await meeting


@pytest.mark.anyio
async def test_an_agent_does_not_join_a_former_leader(tmp_path: Path) -> None:
    """Cut off, it believes that it still leads, and accepts connections."""
    harness = AgentHarness(agent_config(tmp_path))
    await harness.core.open()
    voice, joined = AgentSender(harness.core), []
    await harness.core.check_epoch(5)
    old = RemoteExecutor(keys=OneKey(), timing=QUICK, now_us=lambda: 1, epoch=4)
    server, agent = wire_pair()
    meeting = asyncio.create_task(old.meet(server, agent_id=harness.core.config.id, key=KEY))

    def note(welcome: Welcome) -> None:
        joined.append(welcome)

    with pytest.raises(Refused, match="epoch 4 is over: 5 was seen"):
        await voice.serve(Channel(agent), welcomed=note)
    await agent.close(code=1000, reason="")
    await meeting
    await harness.core.close()
    assert joined == []


@pytest.mark.anyio
@pytest.mark.parametrize("steps", range(8))
async def test_an_agent_stops_even_if_its_connection_is_lost_at_the_same_moment(
    steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At any step while the connection ends; an agent that redials instead would not stop."""

    async def beat(_: AgentSession) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.1)

    monkeypatch.setattr(AgentSession, "_beat", beat)
    executor = RemoteExecutor(keys=OneKey(), timing=QUICK, now_us=lambda: 1)
    await executor.start()
    server, wire = wire_pair()
    dials = [wire]

    @asynccontextmanager
    async def dialled(*_: object, **__: object) -> AsyncIterator[Channel]:
        if not dials:
            raise Unreachable("there is no server any more")
        yield Channel(dials.pop())

    monkeypatch.setattr("aliquot.execution.remote.client.dialled", dialled)
    core, stop = AgentHarness(agent_config(tmp_path / "agents" / "one")).core, asyncio.Event()
    meeting = asyncio.create_task(executor.meet(server, agent_id=core.config.id, key=KEY))
    running = asyncio.create_task(RemoteAgent(core, addresses=[server_address(A)], key=lambda: KEY).run(stop))
    await wait_until(lambda: connections(tmp_path) == {"one": True})
    await wire.close(code=1006, reason="")
    await server.close(code=1006, reason="")
    for _ in range(steps):
        await asyncio.sleep(0)
    stop.set()
    await asyncio.wait_for(running, PATIENCE_S)
    await executor.close()
    await meeting


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio", ("asyncio", {"use_uvloop": True})])
async def test_while_no_server_listens_an_agent_waits_two_seconds_at_most_and_later_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    next_s = Backoff.next_s

    def noted(backoff: Backoff, *, is_down: bool = False) -> float:
        waits.append(next_s(backoff, is_down=is_down))
        return 0.0

    monkeypatch.setattr(Backoff, "next_s", noted)
    with socket.socket() as taken:  # it does not listen, so that connections are refused
        taken.bind(("127.0.0.1", 0))
        address = server_address(f"http://127.0.0.1:{taken.getsockname()[1]}")
        stop = asyncio.Event()
        core = AgentHarness(agent_config(tmp_path / "agents" / "agent-1")).core
        running = asyncio.create_task(RemoteAgent(core, addresses=[address], key=lambda: KEY).run(stop))
        await wait_until(lambda: len(waits) > DOWN_ATTEMPTS)
        stop.set()
        await running
    assert max(waits[:DOWN_ATTEMPTS]) <= DOWN_S_MAX < waits[DOWN_ATTEMPTS]


@pytest.mark.parametrize(("second", "is_refused"), [(errno.ECONNREFUSED, True), (errno.EHOSTUNREACH, False)])
def test_a_server_of_which_no_address_listens_is_said_to_refuse(second: int, is_refused: bool) -> None:
    failed = ", ".join(f"[Errno {number}] Connect call failed ('::1', 1, 0, 0)" for number in (111, second))
    words = connection_fault(OSError(f"Multiple exceptions: {failed}"), server_address("http://localhost:1"))
    assert words.startswith("connection refused") == is_refused
