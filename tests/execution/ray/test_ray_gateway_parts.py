"""The gateway's messages, the settings of Ray's processes, and the files that a node starts from."""

import asyncio
import socket
from pathlib import Path

import pytest

from aliquot.errors import ConfigurationError
from aliquot.execution.devices.partitioning import Division
from aliquot.execution.ray.connections import WAITING_BYTES_MAX, AgentWire
from aliquot.execution.ray.gateway_client import GatewayWire
from aliquot.execution.ray.node.raylet import RayNodeOptions, check_address, start_command
from aliquot.execution.ray.node.token_file import checked_token, made_token
from aliquot.execution.ray.node_options import (
    VARIABLE,
    driver_environment,
    node_environment,
    read_options,
    write_options,
)
from aliquot.execution.ray.protocol import (
    CREDIT_BYTES,
    ConnectionEnded,
    Frame,
    FromGateway,
    FromServer,
    Pipe,
    PipeBroken,
    RayReachable,
)
from aliquot.execution.ray.supervisor import Unreachable, reach
from aliquot.execution.remote.agent_setup import AgentOptions

pytestmark = pytest.mark.anyio


async def test_messages_pass_through_a_pipe_and_its_end_is_detected() -> None:
    ours, theirs = socket.socketpair()
    server: Pipe[FromGateway] = Pipe(*await asyncio.open_unix_connection(sock=ours), incoming=FromGateway)
    gateway: Pipe[FromServer] = Pipe(*await asyncio.open_unix_connection(sock=theirs), incoming=FromServer)
    sent = [RayReachable(version="2", workers=1, nodes=2, problems=("é",)), Frame(connection=1, data=bytes(range(256)))]
    for message in sent:
        await gateway.send(message)
    assert [await server.receive() for _ in sent] == sent
    gateway.close()
    with pytest.raises(PipeBroken):
        await server.receive()
    await server.send(ConnectionEnded(connection=1))
    server.close()


@pytest.mark.parametrize("data", [b"\0\0\0\2{}", b"\0\0\0\1x", b"\xff\xff\xff\xff", b"\0\0"])
async def test_an_invalid_message_breaks_the_pipe(data: bytes) -> None:
    ours, theirs = socket.socketpair()
    server: Pipe[FromGateway] = Pipe(*await asyncio.open_unix_connection(sock=ours), incoming=FromGateway)
    with theirs:
        theirs.sendall(data)
        theirs.shutdown(socket.SHUT_WR)
        with pytest.raises(PipeBroken):
            await server.receive()
    server.close()


async def test_the_server_sends_no_more_than_an_agent_takes() -> None:
    sent: list[FromServer] = []

    async def send(message: FromServer) -> None:
        sent.append(message)

    wire = GatewayWire(1, send=send)
    await wire.send(bytes(CREDIT_BYTES))
    waiting = asyncio.create_task(wire.send(b"more"))
    await asyncio.wait({waiting}, timeout=0.05)
    assert len(sent) == 1
    await wire.taken(CREDIT_BYTES)
    await waiting
    assert len(sent) == 2
    blocked = asyncio.create_task(wire.send(bytes(CREDIT_BYTES)))
    last = asyncio.create_task(wire.send(b"never"))
    await blocked
    await wire.end()
    await last
    assert len(sent) == 3
    assert await wire.receive() is None


async def test_an_agent_blocks_without_a_reader_and_its_data_can_be_fetched_after_the_close() -> None:
    wire = AgentWire()
    await wire.send(bytes(WAITING_BYTES_MAX))
    waiting = asyncio.create_task(wire.send(b"more"))
    await asyncio.wait({waiting}, timeout=0.05)
    assert not waiting.done()
    assert await wire.fetch() == [bytes(WAITING_BYTES_MAX)]
    await waiting
    assert wire.bring([b"a", b"b"])
    await wire.close(code=1000, reason="")
    assert [await wire.receive() for _ in range(3)] == [b"a", b"b", None]
    assert await wire.fetch() == [b"more"]
    assert await wire.fetch() is None
    assert not wire.bring([b"late"])


def test_ray_processes_get_the_variables_of_ray_and_none_of_the_server() -> None:
    given = {
        "PATH": "/bin",
        "ALIQUOT_DATABASE": "postgresql://secret",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "RAY_ADDRESS": "elsewhere:1",
        "RAY_enable_metrics_collection": "1",
    }
    driver = driver_environment(given, token_file=Path("/t/token"))
    assert driver == {
        "PATH": "/bin",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": "/t/token",
        "RAY_enable_metrics_collection": "1",
    }
    node = node_environment(given, token_file=None)
    assert node["RAY_kill_child_processes_on_worker_exit"] == "0"
    assert node["RAY_enable_metrics_collection"] == "1"
    assert driver_environment({"RAY_AUTH_MODE": "disabled"}, token_file=None) == {"RAY_AUTH_MODE": "disabled"}


def test_the_options_of_a_ray_node_are_read_from_a_file(agent_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    division = Division.checked(
        {"resource": {"allocation-mode": "auto-split"}, "agents": [{"id": "a"}, {"id": "b"}]}, source="test"
    )
    options = AgentOptions(data_folder=agent_home, demo_node=2, reserved_cpu=3, division=division)
    monkeypatch.setenv(VARIABLE, str(write_options(options)))
    assert read_options() == options
    (agent_home / "ray-node.json").write_text('{"format": 1, "options": {"data_folder": 5}}')
    with pytest.raises(ConfigurationError, match="cannot be used"):
        read_options()
    monkeypatch.delenv(VARIABLE)
    assert read_options().accelerators is None


def test_a_ray_token_is_created_once_and_readable_only_by_its_owner(tmp_path: Path) -> None:
    token = made_token(tmp_path / "sub" / "token")
    text = token.read_text()
    assert len(text) == 64
    assert made_token(token).read_text() == text
    assert token.stat().st_mode & 0o777 == 0o600
    token.chmod(0o644)
    with pytest.raises(ConfigurationError, match="other users can read"):
        checked_token(token)
    with pytest.raises(ConfigurationError, match="copy it"):
        checked_token(tmp_path / "none")


def test_nodes_offer_ray_no_gpus() -> None:
    worker = start_command(RayNodeOptions(head="10.0.0.1:6379", extra=("--num-cpus=2",)))
    assert "--num-gpus=0" in worker
    assert "--address=10.0.0.1:6379" in worker
    assert worker[-1] == "--num-cpus=2"
    head = start_command(RayNodeOptions(head="10.0.0.1:6379", is_head=True, with_agent=False))
    assert {"--head", "--port=6379", "--node-ip-address=10.0.0.1", "aliquot.io/agent=no"} <= set(head)


@pytest.mark.parametrize("address", ["host", "host:", ":1", "host:0", "host:70000", "host:x"])
def test_a_head_address_without_a_valid_host_and_port_is_refused(address: str) -> None:
    with pytest.raises(ConfigurationError, match="ray-head"):
        check_address(address)


async def test_a_closed_head_port_is_detected_immediately() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(Unreachable, match=str(port)):
        await reach(f"127.0.0.1:{port}")
