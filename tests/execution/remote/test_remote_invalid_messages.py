"""Invalid messages: refused with a sentence, reported to the operator, and the server goes on."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec
import pytest
from msgspec.structs import replace

from aliquot.execution.devices.node import demo_cluster
from aliquot.execution.remote.codec import Channel, ProtocolError, decode
from aliquot.execution.remote.dialing import introduce
from aliquot.execution.remote.executor import RemoteExecutor
from aliquot_schema.cluster.agent_protocol import (
    KINDS,
    LOG_WINDOW_BYTES,
    Answer,
    DevicesReport,
    Failure,
    KernelChangeReport,
    LogPiece,
    Message,
    ReadingsReport,
    Refusal,
    StateReport,
    message_fault,
)
from aliquot_schema.cluster.agents import LABELS_MAX, Agent, Capabilities
from aliquot_schema.cluster.launching import AgentJoined, Inventory, KernelPhase, KernelReport, LogChunk, SpecOnDisk
from aliquot_schema.ids import AgentId, DeviceId, KernelId, NodeId, SlotName
from aliquot_schema.resources.devices import DEVICES_MAX, Device, DeviceProcess, DeviceReading
from aliquot_schema.resources.leases import HostUse
from aliquot_schema.resources.slots import SlotType
from remote_in_memory import AGENT, KEY, QUICK, MessageRecorder, OneKey, hello, wire_pair

pytestmark = pytest.mark.anyio
PATIENCE_S: Final = 20
BROKEN: Final = 4500
KERNEL: Final = KernelId("ses_1.1.0")
REPORT: Final = KernelReport(kernel_id=KERNEL, phase=KernelPhase.STARTED, at_us=1)


def described() -> Agent:
    (node,) = demo_cluster(nodes=1)
    return Agent(
        id=AGENT,
        version=0,
        node_id=NodeId("n"),
        hostname="h",
        devices=node.devices.discover(),
        slot_types=node.devices.slot_types(),
        registered_us=0,
        state_changed_us=0,
    )


def gpu_of(agent: Agent) -> Device:
    return next(device for device in agent.devices if device.kind == "cuda")


def joined(**changes: Any) -> StateReport:
    return StateReport(number=1, inventory=Inventory(agent=replace(described(), **changes)))


def with_gpu(**changes: Any) -> StateReport:
    """Valid except for one GPU."""
    agent = described()
    gpu = gpu_of(agent)
    devices = tuple(replace(device, **changes) if device is gpu else device for device in agent.devices)
    return StateReport(number=1, inventory=Inventory(agent=replace(agent, devices=devices)))


def of_gpus(count: int) -> StateReport:
    gpu = gpu_of(described())
    return joined(devices=tuple(replace(gpu, id=DeviceId(f"g{n}"), name=f"cuda{n}") for n in range(count)))


def reading(**fields: Any) -> ReadingsReport:
    return ReadingsReport(number=2, at_us=1, readings=(DeviceReading(device_id=DeviceId("g"), **fields),))


def host_use(**fields: Any) -> ReadingsReport:
    return ReadingsReport(number=2, at_us=1, readings=(), host_uses={KernelId("k"): HostUse(**fields)})


def kernel(**fields: Any) -> KernelChangeReport:
    return KernelChangeReport(number=2, report=replace(REPORT, **fields))


SHARES = SlotName("cuda.shares")
FAULTS: Final[list[tuple[Callable[[], Message], str]]] = [
    (lambda: with_gpu(budget=2**63 - 1), "budget is 9223372036854775807; 1 to 100,000 is allowed"),
    (lambda: with_gpu(budget=0), "budget is 0"),
    (lambda: with_gpu(budget=-5), "budget is -5"),
    (lambda: with_gpu(kind="cpu", budget=10**6), "budget is 1000000; 1 to 1,024"),
    (lambda: with_gpu(kind="mem", costs={SlotName("mem"): 1}, budget=2**50), "the sum of all budgets"),
    (lambda: with_gpu(costs={SHARES: 0}), "costs of cuda.shares is 0"),
    (lambda: with_gpu(costs={SlotName("CUDA"): 1}), "slot 'CUDA' is not a name"),
    (lambda: with_gpu(costs={SlotName(f"s{n}"): 1 for n in range(17)}), "the number of costs is 17"),
    (lambda: with_gpu(quanta={SHARES: 0}), "quanta of cuda.shares is 0"),
    (lambda: with_gpu(memory_bytes=-1), "memory_bytes is -1"),
    (lambda: with_gpu(memory_bytes=10**25), "memory_bytes is 1000000"),
    (lambda: with_gpu(numa_node=2**40), "numa_node is 1099511627776; 0 to 1,023"),
    (lambda: with_gpu(processors=-1), "processors is -1"),
    (lambda: with_gpu(id=DeviceId("gpu\0")), "id 'gpu\\x00' is not a device id"),
    (lambda: with_gpu(id=DeviceId("../../etc/passwd")), "id '../../etc/passwd' is not a device id"),
    (lambda: with_gpu(id=DeviceId("x" * 256)), "is not a device id"),
    (lambda: with_gpu(parent=DeviceId("/dev")), "parent '/dev' is not a device id"),
    (lambda: with_gpu(linked_to=(DeviceId("a b"),)), "linked_to 'a b' is not a device id"),
    (lambda: with_gpu(linked_to=tuple(DeviceId(f"l{n}") for n in range(257))), "the number of links is 257"),
    (lambda: with_gpu(name="\x1b]52;c;x\7"), "name '\\x1b]52;c;x\\x07' has 9 characters"),
    (lambda: with_gpu(kind="CUDA"), "kind 'CUDA' is not a name"),
    (lambda: with_gpu(model="m" * 256), "model "),
    (lambda: joined(devices=(gpu_of(described()),) * 2), "occurs twice"),
    (lambda: of_gpus(20_000), f"the number of devices is 20000; 0 to {DEVICES_MAX:,}"),
    (lambda: joined(version=2**63), "version is 9223372036854775808"),
    (lambda: joined(registered_us=-1), "registered_us is -1"),
    (lambda: joined(hostname=""), "hostname '' has 0 characters"),
    (lambda: joined(hostname="h\n"), "hostname 'h\\n'"),
    (lambda: joined(node_id=NodeId("n" * 300)), "node_id "),
    (lambda: joined(slot_types={SlotName(f"s{n}"): SlotType.COUNT for n in range(65)}), "the number of slots is "),
    (lambda: joined(attributes={"x": "\0"}), "attributes.x contains the character NUL"),
    (lambda: joined(attributes={str(n): "" for n in range(300)}), "the number of attributes is 300"),
    (lambda: joined(labels={str(n): "" for n in range(LABELS_MAX + 1)}), "the number of labels is 65"),
    (lambda: joined(scaling_factor={SHARES: "nan"}), "scaling_factor of cuda.shares is 'nan'"),
    (lambda: joined(capabilities=Capabilities(port_first=9, port_last=1)), "port_last is 1; 9 to 65,535"),
    (lambda: joined(capabilities=Capabilities(address="\0")), "capabilities '\\x00'"),
    (lambda: reading(temperature_c=1e308), "temperature_c is 1e+308; -274 to 1,000"),
    (lambda: reading(temperature_c=float("nan")), "temperature_c is nan"),
    (lambda: reading(power_w=float("inf")), "power_w is inf"),
    (lambda: reading(utilization_pct=-1.0), "utilization_pct is -1.0"),
    (lambda: reading(memory_used_bytes=2**63), "memory_used_bytes is 9223372036854775808"),
    (lambda: reading(processes=(DeviceProcess(pid=-1, memory_bytes=0),)), "pid is -1"),
    (lambda: reading(processes=(DeviceProcess(pid=1, memory_bytes=-1),)), "memory_bytes of a process is -1"),
    (lambda: ReadingsReport(number=2, at_us=-1, readings=()), "at_us is -1"),
    (lambda: ReadingsReport(number=2, at_us=1, readings=(DeviceReading(device_id=DeviceId("g")),) * 2), "occurs twice"),
    (
        lambda: ReadingsReport(number=2, at_us=1, readings=(), copy_fault="\0"),
        "copy_fault contains the character NUL",
    ),
    (
        lambda: ReadingsReport(number=2, at_us=1, readings=(), disk_shortage="\0"),
        "disk_shortage contains the character NUL",
    ),
    (lambda: host_use(cpu_ms=-1), "cpu_ms is -1"),
    (lambda: host_use(cpu_ms=1, cpu_milli=2**40), "cpu_milli is 1099511627776"),
    (lambda: host_use(cpu_ms=1, memory_bytes=2**63), "memory_bytes is 9223372036854775808"),
    (lambda: kernel(host_use=HostUse(cpu_ms=1, memory_bytes_max=-1)), "memory_bytes_max is -1"),
    (
        lambda: ReadingsReport(number=2, at_us=1, readings=(), host_uses={KernelId("../x"): HostUse(cpu_ms=1)}),
        "contains a /",
    ),
    (lambda: kernel(at_us=2**62), "at_us is 4611686018427387904"),
    (lambda: kernel(exit_code=2**31), "exit_code is 2147483648"),
    (lambda: kernel(signal=-9), "signal is -9"),
    (lambda: kernel(ran_ms=-1), "ran_ms is -1"),
    (lambda: kernel(message="\0"), "message contains the character NUL"),
    (lambda: kernel(message="m" * 200_001), "message has 200,001 characters; 200,000 are allowed"),
    (lambda: kernel(kernel_id=KernelId("../x")), "kernel_id '../x' contains a /"),
    (lambda: DevicesReport(number=2, inventory=Inventory(agent=described(), kernels=(REPORT, REPORT))), "occurs twice"),
    (
        lambda: Answer(
            request=1,
            inventory=Inventory(
                agent=described(),
                specs=(SpecOnDisk(kernel_id=KERNEL, spec={SHARES: {DeviceId("g"): -1}}, ended=False),),
            ),
        ),
        "cuda.shares is -1",
    ),
    (
        lambda: Answer(request=1, failure=Failure(code="x", message="m", fields={"a": "\0"})),
        "fields.a contains the char",
    ),
    (lambda: LogPiece(request=1, chunk=LogChunk(offset=-1, data=b"", at_end=True)), "offset is -1"),
    (
        lambda: LogPiece(request=1, chunk=LogChunk(offset=0, data=bytes(LOG_WINDOW_BYTES + 1), at_end=True)),
        "the length of data is 262145",
    ),
    (lambda: hello(boot_id="b" * 300), "boot_id "),
    (lambda: hello(software_version="\x1b[2J"), "software_version '\\x1b[2J'"),
]


@pytest.mark.parametrize(("message", "words"), FAULTS, ids=[words for _, words in FAULTS])
def test_an_impossible_value_in_an_agent_message_is_named_with_its_limit(
    message: Callable[[], Message], words: str
) -> None:
    said = message_fault(message())
    assert said is not None
    assert words in said
    assert said.isprintable()


@pytest.mark.parametrize("message", [joined(), of_gpus(1000), reading(temperature_c=95.5), kernel(exit_code=137)])
def test_valid_agent_messages_are_accepted(message: Message) -> None:
    assert message_fault(message) is None


@asynccontextmanager
async def talking(
    executor: RemoteExecutor, agent_id: AgentId = AGENT
) -> AsyncIterator[tuple[Channel, asyncio.Task[None]]]:
    """A connection after its welcome."""
    server_end, agent_end = wire_pair()
    meeting = asyncio.create_task(executor.meet(server_end, agent_id=agent_id, key=KEY))
    channel = Channel(agent_end)
    await introduce(channel, hello(agent_id=agent_id))
    yield channel, meeting
    await agent_end.close(code=1000, reason="")
    await server_end.close(code=1000, reason="")
    await asyncio.wait_for(meeting, PATIENCE_S)


async def refusal_on(channel: Channel) -> Refusal:
    async with asyncio.timeout(PATIENCE_S):
        while not isinstance(message := await channel.receive(), Refusal):
            pass
    return message


async def test_a_broken_agent_is_refused_and_logged_once_and_does_not_block_a_later_agent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    refused: dict[AgentId, str | None] = {}
    executor = RemoteExecutor(keys=OneKey(), timing=QUICK, now_us=lambda: 1, on_broken=refused.__setitem__)
    await executor.start()
    received = MessageRecorder(executor)
    caplog.set_level(logging.WARNING, logger="aliquot.agents")
    refusals: list[Refusal] = []
    for _ in range(2):
        async with talking(executor) as (channel, meeting):
            await channel.send(with_gpu(budget=2**63 - 1))
            refusals.append(await refusal_on(channel))
            await asyncio.wait_for(meeting, PATIENCE_S)
    refusal, same = refusals
    assert refusal == same
    assert refusal.code == "broken"
    assert "budget is 9223372036854775807; 1 to 100,000 is allowed" in refusal.message
    assert refused == {AGENT: refusal.message}
    assert [record.message for record in caplog.records if refusal.message in record.message] == [
        f"agent {AGENT} is refused as broken: {refusal.message}; correct its configuration or upgrade it"
    ]
    async with talking(executor) as (channel, _):
        await channel.send(joined())
        told = await received.wait_for(AgentJoined)
        assert isinstance(told, AgentJoined)
        assert received.messages == [told]
        assert refused == {AGENT: None}
    await executor.close()


async def test_an_answer_with_the_inventory_of_another_agent_ends_the_connection() -> None:
    executor = RemoteExecutor(keys=OneKey(), timing=QUICK, now_us=lambda: 1)
    await executor.start()
    async with talking(executor) as (channel, meeting):
        other = replace(described(), id=AgentId("other"))
        await channel.send(Answer(request=1, inventory=Inventory(agent=other)))
        refusal = await refusal_on(channel)
        await asyncio.wait_for(meeting, PATIENCE_S)
    assert refusal.code == "broken"
    assert "inventory of 'other'" in refusal.message
    await executor.close()


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"\x81\xa1x" + b"\x91" * 100_000 + b"\xc0", id="nested beyond the stack"),
        pytest.param(b"\x81\xa7boot_id\xa2\xff\xfe", id="text that is no UTF-8"),
        pytest.param(b"\x81\xa7boot_id\xdb\xff\xff\xff\xff", id="text of 4 GiB that does not come"),
        pytest.param(b"\xdf\xff\xff\xff\xff", id="fields that do not come"),
    ],
)
@pytest.mark.parametrize("kind", ["hello", "joined"])
def test_bytes_that_are_not_a_message_are_refused_with_an_explanation(kind: str, body: bytes) -> None:
    assert kind in KINDS
    with pytest.raises(ProtocolError, match="cannot be read"):
        decode(b"\x92" + msgspec.msgpack.encode(kind) + body)
