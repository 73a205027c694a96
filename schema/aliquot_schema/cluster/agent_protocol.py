"""Agent protocol: messages between the server and a remote agent, on a WebSocket that the agent opens.

The headers of the handshake carry the agent's id and key. Then:

    agent                                   server
    Hello                             ->
                                      <-    Welcome, or Refusal and close
    StateReport                       ->                                        from here on it accepts requests
    StateReport, DevicesReport, ReadingsReport, KernelChangeReport ->
                                      <-    Acknowledged                        at most `WINDOW` unacknowledged
                                      <-    Launch, Stop, SendSignal, SetLimit, TellInventory, FollowLog, OpenStream,
                                              Forget
    Answer, LogPiece                  ->    <-  LogCredit, StopLog
    StreamData, StreamCredit, CloseStream <-> StreamData, StreamCredit, CloseStream
    Heartbeat                         <->   Heartbeat                           at independent intervals
    Goodbye                           ->                                        nothing runs; it disconnects

Messages lost with a connection are not sent again: the inventory in `StateReport` is an agent's complete state, and the
server repeats the requests that follow from it. Unknown fields and unknown messages are ignored, so
additions within one protocol version must be safe to ignore, or be sent only to agents that know them.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

from aliquot_schema.cluster.agents import prose_fault
from aliquot_schema.cluster.launching import (
    OUTPUT_END,
    Inventory,
    KernelReport,
    LaunchOrder,
    LogChunk,
    inventory_fault,
    readings_fault,
    report_fault,
)
from aliquot_schema.cluster.streams import FRAME_BYTES_MAX, STREAM_WINDOW_BYTES, StreamTarget
from aliquot_schema.ids import AgentId, KernelId
from aliquot_schema.resources.devices import DeviceReading, number_fault, text_fault
from aliquot_schema.resources.leases import HostUse

PATH: Final = "/agents/socket"
AGENT_HEADER: Final = "aliquot-agent"
"""The agent's id; its key is the bearer token of the header `authorization`."""
WINDOW: Final = 256
"""Upper bound on unacknowledged reports."""
NOT_LEADER: Final = "not_leader"
"""Refusal code: another server leads, or is about to."""
ORDER_FIELDS_MAX: Final = 256
"""Of `Hello.order_fields`."""
LOG_WINDOW_BYTES: Final = 256 * 1024
"""Flow-control window of one followed output; each piece is smaller."""


class Protocols(Struct, frozen=True, kw_only=True):
    """Range of protocol versions that one side supports, both ends included."""

    oldest: int
    newest: int


PROTOCOLS: Final = Protocols(oldest=1, newest=1)
"""A release supports the newest version and, from the second on, the one before it."""


class Hello(Struct, frozen=True, kw_only=True):
    """First message of an agent."""

    agent_id: AgentId
    boot_id: str
    instance: str
    """Generated at each start of the agent's process."""
    software_version: str
    protocols: Protocols
    probe: bool = False
    """Whether this only tests the connection, without joining."""
    has_streams: bool = False
    """Whether it understands `OpenStream`."""
    has_limits: bool = False
    """Whether it understands `SetLimit`."""
    order_fields: tuple[str, ...] = ()
    """The fields of a `LaunchOrder` that it knows; agents of the release before this field omit it."""


class Welcome(Struct, frozen=True, kw_only=True):
    """The server accepts the agent."""

    protocol: int
    """The agreed version."""
    software_version: str
    beat_s: float
    """Interval of `Heartbeat`, in both directions."""
    now_us: int
    """The server's clock, for comparison."""
    epoch: int = 0
    """Epoch of the server's leadership; 0 = a standalone server."""


class Refusal(Struct, frozen=True, kw_only=True):
    """The server closes the connection; `message` says why, for the operator."""

    code: str
    """`protocol`, `already_connected`, `key`, `replaced`, `silent`, `elsewhere`, `not_leader`, `broken`."""
    message: str
    leader: str = ""
    """With `not_leader`: the leader's address, if known."""


class StateReport(Struct, frozen=True, kw_only=True):
    """Report: the agent's complete state. The first report of a connection."""

    number: int
    """Reports are numbered from 1 on each connection."""
    inventory: Inventory


class DevicesReport(Struct, frozen=True, kw_only=True):
    """Report: a device appeared, disappeared or changed its health."""

    number: int
    inventory: Inventory


class ReadingsReport(Struct, frozen=True, kw_only=True):
    """Report: new measurements; they replace older ones that are still unsent."""

    number: int
    at_us: int
    readings: tuple[DeviceReading, ...]
    disk_shortage: str | None = None
    host_uses: Mapping[KernelId, HostUse] = field(default_factory=dict)
    """CPU time and host memory of running kernels; agents of the release before this field omit it."""
    copy_fault: str | None = None
    """See `NewReadings`; agents of the release before this field omit it."""


class KernelChangeReport(Struct, frozen=True, kw_only=True):
    """Report: a change of a kernel."""

    number: int
    report: KernelReport


class Acknowledged(Struct, frozen=True, kw_only=True):
    """All reports up to this number were processed."""

    number: int


class Launch(Struct, frozen=True, kw_only=True):
    """Request: start kernels."""

    request: int
    orders: tuple[LaunchOrder, ...]


class Stop(Struct, frozen=True, kw_only=True):
    """Request: stop a kernel."""

    request: int
    kernel_id: KernelId
    epoch: int
    grace_ms: int


class SendSignal(Struct, frozen=True, kw_only=True):
    """Request: send a signal to a kernel's main process."""

    request: int
    kernel_id: KernelId
    epoch: int
    signal: int


class SetLimit(Struct, frozen=True, kw_only=True):
    """Request: change the time limit of a running kernel."""

    request: int
    kernel_id: KernelId
    epoch: int
    time_limit_ms: int
    """Since its start."""


class TellInventory(Struct, frozen=True, kw_only=True):
    """Request: the agent's complete state, read again from its files."""

    request: int
    account: str = ""
    """Unix account whose existence is asked too; agents of the release before this field ignore it."""


class Forget(Struct, frozen=True, kw_only=True):
    """The end of these kernels is durable; the agent can stop reporting them. Not answered."""

    kernel_ids: tuple[KernelId, ...]


class FollowLog(Struct, frozen=True, kw_only=True):
    """Request: a kernel's output from an offset. Answered by pieces until one is `at_end`, or by a failure."""

    request: int
    kernel_id: KernelId
    offset: int
    credit: int
    """Bytes the agent may send before it receives `LogCredit`."""


class LogCredit(Struct, frozen=True, kw_only=True):
    """The agent may send `credit` more bytes."""

    request: int
    credit: int


class StopLog(Struct, frozen=True, kw_only=True):
    """The output is not followed any more."""

    request: int


class OpenStream(Struct, frozen=True, kw_only=True):
    """Request: open a stream to a kernel. After the answer, both sides may send `STREAM_WINDOW_BYTES`."""

    request: int
    """Also the number of the stream."""
    kernel_id: KernelId
    target: StreamTarget


class StreamData(Struct, frozen=True, kw_only=True):
    """A piece of a stream; empty = this side sends no more."""

    request: int
    data: bytes


class StreamCredit(Struct, frozen=True, kw_only=True):
    """The other side may send `credit` more bytes."""

    request: int
    credit: int


class CloseStream(Struct, frozen=True, kw_only=True):
    """The stream is closed in both directions."""

    request: int


class Failure(Struct, frozen=True, kw_only=True):
    """An expected error; see `errors`."""

    code: str
    message: str
    fields: Mapping[str, str] = field(default_factory=dict)
    """The error's attributes, as text."""


class Answer(Struct, frozen=True, kw_only=True):
    """Result of a request."""

    request: int
    failure: Failure | None = None
    inventory: Inventory | None = None
    """Result of `TellInventory`."""
    account_exists: bool | None = None
    """Whether the agent's host has the account of `TellInventory`; None = not asked, or an older agent."""


class LogPiece(Struct, frozen=True, kw_only=True):
    """A piece of followed output."""

    request: int
    chunk: LogChunk


class Heartbeat(Struct, frozen=True, kw_only=True):
    """Heartbeat."""


class Goodbye(Struct, frozen=True, kw_only=True):
    """The agent was stopped by an operator, and none of its kernels run."""


Report = StateReport | DevicesReport | ReadingsReport | KernelChangeReport
Request = Launch | Stop | SendSignal | SetLimit | TellInventory | FollowLog | OpenStream
StreamMessage = StreamData | StreamCredit | CloseStream
FromAgent = Hello | Report | Answer | LogPiece | StreamMessage | Heartbeat | Goodbye
FromServer = Welcome | Refusal | Acknowledged | Request | Forget | LogCredit | StopLog | StreamMessage | Heartbeat
Message = FromAgent | FromServer

KINDS: Final[Mapping[str, type[Message]]] = {
    "hello": Hello,
    "welcome": Welcome,
    "refusal": Refusal,
    "joined": StateReport,
    "devices": DevicesReport,
    "readings": ReadingsReport,
    "kernel": KernelChangeReport,
    "acknowledged": Acknowledged,
    "launch": Launch,
    "stop": Stop,
    "signal": SendSignal,
    "set_limit": SetLimit,
    "inventory": TellInventory,
    "forget": Forget,
    "follow_log": FollowLog,
    "more_log": LogCredit,
    "end_log": StopLog,
    "open_stream": OpenStream,
    "stream_data": StreamData,
    "stream_credit": StreamCredit,
    "close_stream": CloseStream,
    "answer": Answer,
    "log": LogPiece,
    "beat": Heartbeat,
    "good_bye": Goodbye,
}
"""Names of messages on the wire. A name is never reused for another message."""

FAILURE_FIELDS_MAX: Final = 32


def message_fault(message: Message) -> str | None:
    """Message about the first invalid value of an agent's message: field, value and range; None = valid.

    The server discards an invalid message and refuses its agent as `broken`. Messages of servers are not checked.
    """
    match message:
        case Hello():
            return _hello_fault(message)
        case StateReport() | DevicesReport():
            return inventory_fault(message.inventory)
        case ReadingsReport():
            return readings_fault(
                message.at_us,
                message.readings,
                disk_shortage=message.disk_shortage,
                host_uses=message.host_uses,
                copy_fault=message.copy_fault,
            )
        case KernelChangeReport():
            return report_fault(message.report)
        case Answer():
            return _answer_fault(message)
        case LogPiece(chunk=chunk):
            return number_fault("offset", chunk.offset, least=0, most=OUTPUT_END) or number_fault(
                "the length of data", len(chunk.data), least=0, most=LOG_WINDOW_BYTES
            )
        case StreamData(data=data):
            return number_fault("the length of data", len(data), least=0, most=FRAME_BYTES_MAX)
        case StreamCredit(credit=credit):
            return number_fault("credit", credit, least=0, most=STREAM_WINDOW_BYTES)
        case _:
            return None


def _hello_fault(hello: Hello) -> str | None:
    return (
        text_fault("agent_id", hello.agent_id)
        or text_fault("boot_id", hello.boot_id, least=0)
        or text_fault("instance", hello.instance, least=0)
        or text_fault("software_version", hello.software_version, least=0)
        or number_fault("the number of order_fields", len(hello.order_fields), least=0, most=ORDER_FIELDS_MAX)
        or next(filter(None, (text_fault("order_fields", name) for name in hello.order_fields)), None)
        or number_fault("protocols.oldest", hello.protocols.oldest, least=0, most=2**31 - 1)
        or number_fault("protocols.newest", hello.protocols.newest, least=hello.protocols.oldest, most=2**31 - 1)
    )


def _answer_fault(answer: Answer) -> str | None:
    fault = None if answer.inventory is None else inventory_fault(answer.inventory)
    failure = answer.failure
    if failure is None or fault is not None:
        return fault
    fault = text_fault("code", failure.code) or prose_fault("message", failure.message)
    fault = fault or number_fault("the number of fields", len(failure.fields), least=0, most=FAILURE_FIELDS_MAX)
    for name, value in failure.fields.items():
        fault = fault or text_fault("a field", name) or prose_fault(f"fields.{name[:40]}", value)
    return fault


def agreed_protocol(*, agent: Protocols, server: Protocols) -> int | None:
    """The newest version that both support; None = none, see `disagreement`."""
    newest = min(agent.newest, server.newest)
    return newest if newest >= max(agent.oldest, server.oldest) else None


def disagreement(*, agent: Protocols, server: Protocols, agent_version: str, server_version: str) -> str:
    """Error message for two sides without a common version: names the side to upgrade."""
    old = "agent" if agent.newest < server.oldest else "server"
    return (
        f"the agent ({agent_version}) supports protocol versions {agent.oldest} to {agent.newest}, the server "
        f"({server_version}) {server.oldest} to {server.newest}: upgrade the {old}"
    )
