"""Invalid values from agents do not stop the server: it places others, and reports all agents.

Each example is a connection of an agent that joins and sends a few messages, which are right but for some values in
them. They go over the wire as bytes, through the real decoder, executor, service and GraphQL and REST answers.
"""

import asyncio
import copy
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import product
from typing import Any, Final

import httpx
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aliquot.api.application import create_app
from aliquot.api.authentication import TokenAuth
from aliquot.execution.devices.node import demo_cluster
from aliquot.execution.remote.codec import Channel, ChannelClosed, ProtocolError, decode, encode, frames
from aliquot.execution.remote.executor import RemoteExecutor
from aliquot.execution.remote.presence import HeartbeatTiming
from aliquot_schema.cluster.agent_protocol import (
    PROTOCOLS,
    Answer,
    DevicesReport,
    Failure,
    Goodbye,
    Hello,
    KernelChangeReport,
    LogPiece,
    Message,
    ReadingsReport,
    StateReport,
)
from aliquot_schema.cluster.agents import Agent
from aliquot_schema.cluster.launching import (
    AgentMessage,
    AgentSilent,
    Inventory,
    KernelPhase,
    KernelReport,
    LogChunk,
    SpecOnDisk,
)
from aliquot_schema.ids import AgentId, KernelId, NodeId, UserId, kernel_parts
from aliquot_schema.resources.devices import DeviceProcess, DeviceReading
from aliquot_schema.resources.leases import EndEvidence, HostUse
from aliquot_schema.states import SessionState
from api_service import accounts_of, face_of
from remote_in_memory import KEY, OneKey, wire_pair
from service_bench import agent as fake_agent
from service_stage import Stage, stage

PATIENCE_S: Final = 20
FUZZED: Final = AgentId("fuzzed")
TIMING: Final = HeartbeatTiming(beat_s=5.0, lost_s=60.0, greet_s=20.0, answer_s=20.0)
TOKEN: Final = "a-token-of-the-tests-0123456789"
QUESTION: Final = """{
  agents { edges { node {
    id version node_id hostname state schedulable pool labels { name value } capacity { slot amount }
    occupied { slot amount } gpu_alloc_map scaling_factors { slot amount } attributes { name value }
    software_version registered_at state_changed_at kernels { id state exit_code signal message }
    devices { id name kind model numa_node parent_id memory_bytes capacity used free utilization_pct
      memory_used_bytes temperature_c power_w linked_to link_group }
  } } }
  cluster { capacity { slot total available allocated } gpus { id } }
}"""


def described() -> Agent:
    (node,) = demo_cluster(nodes=1)
    devices = node.devices.discover()
    kept = [next(device for device in devices if device.kind == kind) for kind in ("cpu", "mem", "cuda")]
    return Agent(
        id=FUZZED,
        version=0,
        node_id=NodeId("node-f"),
        hostname="host-f",
        devices=tuple(kept),
        slot_types=node.devices.slot_types(),
        attributes={"driver": "1"},
        labels={"room": "1"},
        registered_us=0,
        state_changed_us=0,
    )


def plain(kernel: KernelId) -> list[Message]:
    """One of each message that a welcomed agent sends, all valid."""
    agent = described()
    gpu = agent.devices[-1].id
    report = KernelReport(
        kernel_id=kernel,
        phase=KernelPhase.EXITED,
        at_us=1,
        exit_code=1,
        signal=9,
        ran_ms=5,
        evidence=EndEvidence.EXIT_FILE,
        code="x",
        message="m",
    )
    spec = SpecOnDisk(kernel_id=kernel, spec={slot: {gpu: 1} for slot in agent.devices[-1].costs}, ended=False)
    inventory = Inventory(agent=agent, kernels=(report,), specs=(spec,))
    reading = DeviceReading(
        device_id=gpu,
        utilization_pct=1.5,
        memory_used_bytes=1,
        temperature_c=40.0,
        power_w=70.0,
        processes=(DeviceProcess(pid=5, memory_bytes=1),),
    )
    return [
        StateReport(number=1, inventory=inventory),
        DevicesReport(number=2, inventory=inventory),
        ReadingsReport(
            number=3, at_us=1, readings=(reading,), host_uses={report.kernel_id: HostUse(cpu_ms=5, cpu_milli=7)}
        ),
        KernelChangeReport(number=4, report=report),
        Answer(request=1, failure=Failure(code="not_found", message="m", fields={"id": "x"}), inventory=inventory),
        LogPiece(request=1, chunk=LogChunk(offset=0, data=b"x", at_end=True)),
        Goodbye(),
    ]


def hello() -> Hello:
    return Hello(agent_id=FUZZED, boot_id="b", instance="i", software_version="v", protocols=PROTOCOLS)


NUMBERS = st.sampled_from([0, -1, 1, 2**31, -(2**31), 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1, -(2**63)])
FLOATS = st.sampled_from([0.0, -1.0, 1e308, -1e308, float("inf"), float("-inf"), float("nan")])
TEXTS = st.sampled_from(
    ["", "\0", "../x", "/", "..", "\x1b]52;c;x\7", "a" * 300, "a\nb", "GPU-1", "\u202e", "é", "cuda"]
)
ANYTHING = st.one_of(NUMBERS, FLOATS, TEXTS, st.none(), st.booleans(), st.just([]), st.just({}), st.just(b"x"))


def places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every path in a message."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    below = [place for key, value in items for place in places(value, (*path, key))]
    return [*([path] if path else []), *below]


def numbers(tree: Any) -> list[tuple[Any, ...]]:
    """Paths of a message's numbers."""
    found = []
    for path in places(tree):
        value = tree
        for part in path:
            value = value[part]
        if type(value) in (int, float):
            found.append(path)
    return found


def with_value(tree: Any, path: tuple[Any, ...], value: Any) -> Any:
    """The message with another value at one path."""
    tree = holder = copy.deepcopy(tree)
    for part in path[:-1]:
        holder = holder[part]
    holder[path[-1]] = value
    return tree


@st.composite
def spoilt(draw: st.DrawFn, tree: Any) -> Any:
    """A message with some values replaced."""
    tree = copy.deepcopy(tree)
    for _ in range(draw(st.integers(0, 3))):
        found = places(tree)
        if not found:
            break
        *path, key = (
            draw(st.sampled_from(found)) if draw(st.booleans()) else draw(st.sampled_from(numbers(tree) or found))
        )
        holder = tree
        for part in path:
            holder = holder[part]
        old = holder[key]
        kinds = {bool: st.booleans(), int: NUMBERS, float: FLOATS, str: TEXTS}
        match draw(st.sampled_from(["alike", "alike", "alike", "alike", "alike", "other", "twice", "key", "none"])):
            case "alike" if type(old) in kinds:
                holder[key] = draw(kinds[type(old)])
            case "twice" if isinstance(old, list):
                holder[key] = old * draw(st.sampled_from([2, 300]))
            case "key" if isinstance(holder, dict):
                holder[draw(TEXTS)] = holder.pop(key)
            case "none":
                holder.pop(key)
            case _:
                holder[key] = draw(ANYTHING)
    return tree


def tree_of(message: Message) -> Any:
    """The message as decoded from the wire, for changes."""
    return msgspec.msgpack.decode(encode(message))


class Server:
    """The service over a stage, with an executor that agents dial, and its HTTP face."""

    def __init__(self, on: Stage, http: httpx.AsyncClient, executor: RemoteExecutor) -> None:
        self.on = on
        self.http = http
        self.executor = executor
        self.heard: list[AgentMessage] = []
        self.passes = 0

    async def listen(self) -> None:
        async for message in self.executor.messages():
            self.heard.append(message)

    async def connection(self, hello: bytes, said: list[bytes]) -> None:
        """One agent's, from its hello to its end."""
        server_end, agent_end = wire_pair()
        meeting = asyncio.create_task(self.executor.meet(server_end, agent_id=FUZZED, key=KEY))
        channel, reading = Channel(agent_end), None
        try:
            reading = asyncio.create_task(self._read(channel))
            for data in (hello, *said):
                for frame in frames(data):
                    await agent_end.send(frame)
            await server_end._into.put(None)  # end of the connection
            await asyncio.wait_for(meeting, PATIENCE_S)
        finally:
            await agent_end.close(code=1000, reason="")
            if reading is not None:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)

    async def _read(self, channel: Channel) -> None:
        with suppress(ChannelClosed):
            while True:
                await channel.receive()

    async def acts(self) -> None:
        """The service processes the messages, decides, and answers about all agents."""
        await asyncio.sleep(0)
        heard, self.heard = self.heard, []
        await self.on.messages.run_once(heard)
        await self.on.dispatch.close()
        self.on.note_budgets()
        counts, _ = await self.on.allocator.run_once()
        assert counts.number > self.passes
        self.passes = counts.number
        answer = await self.http.post("/graphql", json={"query": QUESTION})
        assert answer.status_code == 200, answer.text
        assert "errors" not in answer.json(), answer.text
        assert (await self.http.get("/cluster/gpu-status")).status_code == 200


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[Server, KernelId]]:
    """A server with an agent that runs a kernel, and a waiting session, so that each pass checks all agents."""
    async with stage([fake_agent("good", devices=2), fake_agent("large", devices=9)]) as on:
        auth = TokenAuth(TOKEN, UserId("ann"), source="a test", people=on.state.people)
        app = create_app(face_of(on, accounts=accounts_of(on), auth=auth))
        executor = RemoteExecutor(keys=OneKey(), timing=TIMING, now_us=on.clock.now_us)
        await executor.start()
        headers = {"authorization": f"Bearer {TOKEN}"}
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers) as http:
            server = Server(on, http, executor)
            listening = asyncio.create_task(server.listen())
            session = await on.submit(devices=2)
            await on.advance()
            await on.on_event(AgentSilent(agent_id=AgentId("large")))
            await on.submit(devices=9)  # waits for that agent
            (kernel,) = on.state.kernels_of[session]
            yield server, kernel
            await executor.close()
            await listening


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture
def running(runner: asyncio.Runner) -> Iterator[tuple[Server, KernelId]]:
    context = serving()
    yield runner.run(context.__aenter__())
    runner.run(context.__aexit__(None, None, None))


def send(runner: asyncio.Runner, server: Server, greeting: Any, said: list[Any]) -> None:
    """One connection, and its processing."""
    for number, tree in enumerate(said, start=1):
        if isinstance(tree, list) and len(tree) == 2 and isinstance(tree[1], dict) and "number" in tree[1]:
            tree[1]["number"] = number
    wire = [msgspec.msgpack.encode(tree) for tree in said]
    runner.run(server.connection(msgspec.msgpack.encode(greeting), wire))
    runner.run(server.acts())


async def still_works(server: Server, kernel: KernelId) -> None:
    """The same agent is admitted once it sends valid data, and the others get work."""
    on = server.on
    await server.connection(encode(hello()), [encode(plain(kernel)[0])])
    await server.acts()
    assert on.state.agents[FUZZED].devices == described().devices
    session = await on.submit(devices=2)
    await on.cancel(kernel_parts(kernel)[0])
    on.executor.end_kernel(kernel)
    await on.settle()
    await on.advance()
    assert on.session(session).state is SessionState.RUNNING


def test_no_number_sent_by_an_agent_crashes_the_server(
    runner: asyncio.Runner, running: tuple[Server, KernelId]
) -> None:
    server, kernel = running
    greeting, (first, *others) = tree_of(hello()), [tree_of(message) for message in plain(kernel)]
    for tree in (first, *others):
        for path, odd in product(numbers(tree), (2**63 - 1, -1, float("inf"))):
            one = with_value(tree, path, odd)
            send(runner, server, greeting, [one] if tree is first else [copy.deepcopy(first), one])
    runner.run(still_works(server, kernel))


def test_no_message_sent_by_an_agent_crashes_or_blocks_the_server(
    runner: asyncio.Runner, running: tuple[Server, KernelId]
) -> None:
    server, kernel = running
    greeting, (first, *others) = tree_of(hello()), [tree_of(message) for message in plain(kernel)]

    @settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        greets = data.draw(st.one_of(st.just(greeting), st.just(greeting), spoilt(greeting)))
        joins = data.draw(st.one_of(st.builds(copy.deepcopy, st.just(first)), spoilt(first)))
        says = [data.draw(spoilt(tree)) for tree in data.draw(st.lists(st.sampled_from(others), max_size=3))]
        send(runner, server, greets, [joins, *says])

    check()
    runner.run(still_works(server, kernel))


@given(
    st.one_of(
        st.binary(max_size=200),
        st.sampled_from(["hello", "joined", "kernel", "beat"]).flatmap(
            lambda kind: st.binary(max_size=200).map(lambda body: b"\x92" + msgspec.msgpack.encode(kind) + body)
        ),
    )
)
def test_arbitrary_bytes_are_decoded_or_refused(data: bytes) -> None:
    with suppress(ProtocolError):
        decode(data)
