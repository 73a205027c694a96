"""The wire protocol, and which releases may talk."""

import time

import msgspec
import pytest
from msgspec.structs import replace

from agent_harness import shell
from aliquot.execution.devices.node import demo_cluster
from aliquot.execution.remote.codec import (
    FRAME_BYTES_MAX,
    MessageAssembler,
    ProtocolError,
    decode,
    encode,
    frames,
    from_failure,
    to_failure,
)
from aliquot_schema.cluster.agent_protocol import (
    KINDS,
    PROTOCOLS,
    Acknowledged,
    Answer,
    CloseStream,
    DevicesReport,
    Failure,
    FollowLog,
    Forget,
    Goodbye,
    Heartbeat,
    Hello,
    KernelChangeReport,
    Launch,
    LogCredit,
    LogPiece,
    Message,
    OpenStream,
    Protocols,
    ReadingsReport,
    Refusal,
    SendSignal,
    SetLimit,
    StateReport,
    Stop,
    StopLog,
    StreamCredit,
    StreamData,
    TellInventory,
    Welcome,
    agreed_protocol,
    disagreement,
)
from aliquot_schema.cluster.agents import Agent
from aliquot_schema.cluster.launching import Inventory, KernelPhase, KernelReport, LogChunk, SpecOnDisk
from aliquot_schema.cluster.streams import StreamTarget, TerminalRequest
from aliquot_schema.errors import InvalidRequest, NotFound, StateConflict, Unavailable
from aliquot_schema.ids import AgentId, DeviceId, KernelId, NodeId
from aliquot_schema.resources.devices import DeviceProcess, DeviceReading
from aliquot_schema.resources.leases import EndEvidence, HostUse

KERNEL = KernelId("ses_1.1.0")
REPORT = KernelReport(kernel_id=KERNEL, phase=KernelPhase.EXITED, at_us=1, exit_code=7, evidence=EndEvidence.EXIT_FILE)


def inventory() -> Inventory:
    (node,) = demo_cluster(nodes=1)
    devices = node.devices.discover()
    agent = Agent(
        id=AgentId("a"),
        version=0,
        node_id=NodeId("n"),
        hostname="h",
        devices=devices,
        slot_types=node.devices.slot_types(),
        registered_us=0,
        state_changed_us=0,
    )
    spec = {slot: {devices[0].id: 1} for slot in devices[0].costs}
    return Inventory(agent=agent, kernels=(REPORT,), specs=(SpecOnDisk(kernel_id=KERNEL, spec=spec, ended=False),))


def messages() -> list[Message]:
    reading = DeviceReading(device_id=DeviceId("d"), processes=(DeviceProcess(pid=1, memory_bytes=None),))
    return [
        Hello(agent_id=AgentId("a"), boot_id="b", instance="i", software_version="v", protocols=PROTOCOLS),
        Welcome(protocol=1, software_version="v", beat_s=2.0, now_us=time.time_ns() // 1000),
        Refusal(code="key", message="no"),
        StateReport(number=1, inventory=inventory()),
        DevicesReport(number=2, inventory=inventory()),
        ReadingsReport(
            number=3, at_us=5, readings=(reading,), host_uses={KERNEL: HostUse(cpu_ms=5, memory_bytes=2**40)}
        ),
        KernelChangeReport(number=4, report=REPORT),
        Acknowledged(number=4),
        Launch(request=1, orders=(shell("true", environment={"A": "ä"}, not_after_us=2**60),)),
        Stop(request=2, kernel_id=KERNEL, epoch=3, grace_ms=4),
        SendSignal(request=3, kernel_id=KERNEL, epoch=3, signal=9),
        SetLimit(request=3, kernel_id=KERNEL, epoch=3, time_limit_ms=60_000),
        TellInventory(request=4),
        Forget(kernel_ids=(KERNEL,)),
        FollowLog(request=5, kernel_id=KERNEL, offset=2**40, credit=1),
        LogCredit(request=5, credit=1),
        StopLog(request=5),
        Answer(request=4, failure=Failure(code="not_found", message="m", fields={"id": "x"}), inventory=inventory()),
        LogPiece(request=5, chunk=LogChunk(offset=0, data=bytes(range(256)), at_end=True)),
        OpenStream(request=6, kernel_id=KERNEL, target=StreamTarget(terminal=TerminalRequest(name="ä", rows=9))),
        StreamData(request=6, data=bytes(range(256))),
        StreamCredit(request=6, credit=2**20),
        CloseStream(request=6),
        Heartbeat(),
        Goodbye(),
    ]


def test_every_kind_of_message_comes_out_as_it_went_in() -> None:
    sent = messages()
    assert {type(message) for message in sent} == set(KINDS.values())
    for message in sent:
        assert decode(encode(message)) == message


def test_invalid_unicode_in_a_message_is_replaced() -> None:
    odd = KernelChangeReport(number=1, report=replace(REPORT, message="bad \udcff path"))
    came = decode(encode(odd))
    assert isinstance(came, KernelChangeReport)
    assert came.report == replace(REPORT, message="bad ? path")


def test_unknown_messages_and_fields_are_skipped() -> None:
    assert decode(msgspec.msgpack.encode(["from the future", {"x": 1}])) is None
    assert decode(msgspec.msgpack.encode(["acknowledged", {"number": 4, "more": [1]}])) == Acknowledged(number=4)


@pytest.mark.parametrize("data", [b"", b"x", b"\x92\xa4beat", msgspec.msgpack.encode(["stop", {"request": "x"}])])
def test_invalid_messages_are_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(data)


@pytest.mark.parametrize("size", [0, 1, FRAME_BYTES_MAX, FRAME_BYTES_MAX + 1, 3 * FRAME_BYTES_MAX])
def test_long_messages_go_in_short_frames(size: int) -> None:
    data = bytes(size % 251 for size in range(size)) or b"x"
    assembly = MessageAssembler()
    cut = list(frames(data))
    assert all(len(frame) <= FRAME_BYTES_MAX + 1 for frame in cut)
    *before, last = [assembly.add(frame) for frame in cut]
    assert before == [None] * (len(cut) - 1)
    assert last == data
    assert assembly.add(next(frames(b"again"))) == b"again"


@pytest.mark.parametrize("frame", [b"", b"\2abc", b"text"])
def test_invalid_frames_are_refused(frame: bytes) -> None:
    with pytest.raises(ProtocolError):
        MessageAssembler().add(frame)


@pytest.mark.parametrize(
    ("agent", "server", "agreed", "old"),
    [
        ((1, 1), (1, 1), 1, None),
        ((1, 1), (1, 2), 1, None),
        ((2, 3), (1, 2), 2, None),
        ((1, 2), (2, 3), 2, None),
        ((1, 1), (2, 3), None, "agent"),
        ((3, 4), (1, 2), None, "server"),
    ],
)
def test_adjacent_releases_agree_on_a_protocol_and_others_name_the_side_to_upgrade(
    agent: tuple[int, int], server: tuple[int, int], agreed: int | None, old: str | None
) -> None:
    one = Protocols(oldest=agent[0], newest=agent[1])
    other = Protocols(oldest=server[0], newest=server[1])
    assert agreed_protocol(agent=one, server=other) == agreed
    if old is not None:
        words = disagreement(agent=one, server=other, agent_version="x", server_version="y")
        assert words.endswith(f"upgrade the {old}")


@pytest.mark.parametrize(
    "error",
    [
        Unavailable("away"),
        NotFound("none", kind="kernel", id="k"),
        StateConflict("over", id="k", state="epoch 3"),
        InvalidRequest("bad", field="signal"),
    ],
)
def test_errors_of_an_agent_are_the_same_at_the_server(error: Unavailable) -> None:
    came = from_failure(to_failure(error))
    assert type(came) is type(error)
    assert vars(came) == vars(error)


def test_an_unknown_error_code_is_treated_as_retryable() -> None:
    assert isinstance(from_failure(Failure(code="from the future", message="x")), Unavailable)
