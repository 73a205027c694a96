"""What the server and an agent that dials in say to each other, on one WebSocket that the agent opens.

The agent names itself and shows its key in the headers of the handshake. Then:

    agent                                   server
    Hello                             ->
                                      <-    Welcome, or Refusal and the end
    Joined                            ->                                        from here on it can be asked
    Joined, Kernel-, Devices-, ReadingsTold ->    <- Acknowledged               at most `WINDOW` without an answer
                                      <-    Launch, Stop, SendSignal, TellInventory, FollowLog, Forget
    Answer, LogPiece                  ->    <-  MoreLog, EndLog
    Beat                              <->   Beat                                each at its own pace
    GoodBye                           ->                                        nothing runs, and it goes

A message that is lost with its connection is not sent again: the inventory in `Joined` holds everything an agent knows,
and the server sends again what follows from it. A field that one side does not know is skipped, and so is a message of
an unknown kind: what is added within one protocol version must do no harm when it is not understood.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from aliquot_schema.devices import DeviceReading
from aliquot_schema.ids import AgentId, KernelId
from aliquot_schema.launching import Inventory, KernelReport, LaunchOrder, LogChunk

PATH: Final = "/agents/socket"
AGENT_HEADER: Final = "aliquot-agent"
"""The agent's id; its key is the bearer token of the header `authorization`."""
WINDOW: Final = 256
"""Reports that may be under way without having been acknowledged."""
NOT_LEADER: Final = "not_leader"
"""The code of a refusal: another server leads, or will in a moment."""
LOG_WINDOW_BYTES: Final = 256 * 1024
"""How much of one followed output may be under way; each piece is smaller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocols:
    """The protocol versions that one side speaks: `oldest` to `newest`, both included."""

    oldest: int
    newest: int


PROTOCOLS: Final = Protocols(oldest=1, newest=1)
"""A release speaks the newest version and, from the second on, the one before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """Who dials in."""

    agent_id: AgentId
    boot_id: str
    instance: str
    """Made at each start of the agent's process."""
    software_version: str
    protocols: Protocols
    probe: bool = False
    """Only asks whether it would be welcome; it does not join."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome:
    """The server takes the agent in."""

    protocol: int
    """The version that both speak from here on."""
    software_version: str
    beat_s: float
    """How often to send `Beat`; the server does the same."""
    now_us: int
    """The server's clock, for comparison."""
    epoch: int = 0
    """Of the term in which the server leads; 0 = one that is alone with its store does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The connection ends here, and why, in words for the operator."""

    code: str
    """`protocol`, `already_connected`, `key`, `replaced`, `silent`, `elsewhere`, `not_leader`, `broken`."""
    message: str
    leader: str = ""
    """Of `not_leader`: the address of the server that leads, as far as it is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """Report: everything the agent has. The first of a connection."""

    number: int
    """Reports are numbered from 1 on each connection."""
    inventory: Inventory


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicesTold:
    """Report: a device was found, lost, or changed its health."""

    number: int
    inventory: Inventory


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingsTold:
    """Report: fresh measurements; older ones that wait to be sent are dropped for newer ones."""

    number: int
    at_us: int
    readings: tuple[DeviceReading, ...]
    disk_shortage: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTold:
    """Report: something became known of a kernel."""

    number: int
    report: KernelReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged:
    """All reports up to this number were taken."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Request: start kernels."""

    request: int
    orders: tuple[LaunchOrder, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Request: end a kernel."""

    request: int
    kernel_id: KernelId
    epoch: int
    grace_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SendSignal:
    """Request: send a signal to a kernel's main process."""

    request: int
    kernel_id: KernelId
    epoch: int
    signal: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TellInventory:
    """Request: everything the agent has, read afresh."""

    request: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Forget:
    """The end of these kernels is durable: the agent need not tell of them any more. Not answered."""

    kernel_ids: tuple[KernelId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowLog:
    """Request: a kernel's output from a byte on. Pieces come until one is `at_end`, or a failure is answered."""

    request: int
    kernel_id: KernelId
    offset: int
    credit: int
    """Bytes that may be sent before `MoreLog`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoreLog:
    """So many bytes more may be sent."""

    request: int
    credit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EndLog:
    """Nobody follows this output any more."""

    request: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An expected error, see `errors`."""

    code: str
    message: str
    fields: Mapping[str, str] = field(default_factory=dict)
    """The error's own, as text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What became of a request."""

    request: int
    failure: Failure | None = None
    inventory: Inventory | None = None
    """Of `TellInventory`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPiece:
    """Some output."""

    request: int
    chunk: LogChunk


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """Still here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoodBye:
    """The agent is stopped by a person, and nothing of it runs."""


Report = Joined | DevicesTold | ReadingsTold | KernelTold
Request = Launch | Stop | SendSignal | TellInventory | FollowLog
FromAgent = Hello | Report | Answer | LogPiece | Beat | GoodBye
FromServer = Welcome | Refusal | Acknowledged | Request | Forget | MoreLog | EndLog | Beat
Message = FromAgent | FromServer

KINDS: Final[Mapping[str, type[Message]]] = {
    "hello": Hello,
    "welcome": Welcome,
    "refusal": Refusal,
    "joined": Joined,
    "devices": DevicesTold,
    "readings": ReadingsTold,
    "kernel": KernelTold,
    "acknowledged": Acknowledged,
    "launch": Launch,
    "stop": Stop,
    "signal": SendSignal,
    "inventory": TellInventory,
    "forget": Forget,
    "follow_log": FollowLog,
    "more_log": MoreLog,
    "end_log": EndLog,
    "answer": Answer,
    "log": LogPiece,
    "beat": Beat,
    "good_bye": GoodBye,
}
"""How each message is called on the wire. A name is never given to another message."""


def agreed_protocol(*, agent: Protocols, server: Protocols) -> int | None:
    """The newest version that both speak; None when there is none, see `disagreement`."""
    newest = min(agent.newest, server.newest)
    return newest if newest >= max(agent.oldest, server.oldest) else None


def disagreement(*, agent: Protocols, server: Protocols, agent_version: str, server_version: str) -> str:
    """Why two sides without a common version cannot talk, and which of them to upgrade."""
    old = "agent" if agent.newest < server.oldest else "server"
    return (
        f"the agent ({agent_version}) speaks the protocol versions {agent.oldest} to {agent.newest}, the server "
        f"({server_version}) {server.oldest} to {server.newest}: upgrade the {old}"
    )
