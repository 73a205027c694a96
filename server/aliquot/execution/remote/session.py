"""Agent session: the agent's side of one connection. Executes the server's requests and sends reports.

Reports are numbered, in order, and limited to a window of unacknowledged ones.
"""

import asyncio
import logging
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from aliquot.execution.agent.agent import AgentCore
from aliquot.execution.remote.codec import Channel, ProtocolError, to_failure
from aliquot.execution.remote.flow_control import FlowStream, joined
from aliquot_schema.cluster.agent_protocol import (
    NOT_LEADER,
    WINDOW,
    Acknowledged,
    Answer,
    CloseStream,
    DevicesReport,
    Failure,
    FollowLog,
    Forget,
    Heartbeat,
    KernelChangeReport,
    Launch,
    LogCredit,
    LogPiece,
    Message,
    OpenStream,
    ReadingsReport,
    Refusal,
    Report,
    SendSignal,
    SetLimit,
    StateReport,
    Stop,
    StopLog,
    StreamCredit,
    StreamData,
    StreamMessage,
    TellInventory,
)
from aliquot_schema.cluster.launching import (
    AgentJoined,
    AgentMessage,
    DevicesChanged,
    Inventory,
    KernelChanged,
    KernelReport,
    NewReadings,
)
from aliquot_schema.cluster.streams import STREAMS_MAX
from aliquot_schema.errors import AliquotError, Unavailable

WAITING_MAX: Final = 50_000
"""Maximum of queued kernel reports. Above it a new connection is cheaper: its inventory has each kernel once."""


class OutboxFull(Exception):
    """The server processes reports more slowly than they are made."""


@dataclass(slots=True)
class Outbox:
    """Queue of reports: the inventory first, then all kernel reports, the newest device list, the newest readings."""

    _inventory: Inventory | None = None
    _kernels: deque[KernelReport] = field(default_factory=deque)
    _devices: Inventory | None = None
    _readings: NewReadings | None = None
    _sent: int = 0
    _acknowledged: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, message: AgentMessage) -> None:
        """Queue a message."""
        match message:
            case AgentJoined(inventory=inventory):
                self._inventory = inventory
            case KernelChanged(report=report):
                self._kernels.append(report)
            case DevicesChanged(inventory=inventory):
                self._devices = inventory
            case NewReadings():
                self._readings = message
        self._changed.set()

    def acknowledge(self, number: int) -> None:
        """The server has processed all reports up to this number."""
        self._acknowledged = max(self._acknowledged, number)
        self._changed.set()

    async def next(self) -> Report:
        """The next report to send; waits while the window is full.

        Raises:
            OutboxFull: more than `WAITING_MAX` kernel reports are queued.
        """
        while True:
            if len(self._kernels) > WAITING_MAX:
                raise OutboxFull
            may_send = self._sent < self._acknowledged + WINDOW
            report = self._take(self._sent + 1) if may_send else None
            if report is not None:
                self._sent += 1
                return report
            self._changed.clear()
            await self._changed.wait()

    def _take(self, number: int) -> Report | None:
        if self._inventory is not None:
            inventory, self._inventory = self._inventory, None
            return StateReport(number=number, inventory=inventory)
        if self._sent == 0:
            return None
        if self._kernels:
            return KernelChangeReport(number=number, report=self._kernels.popleft())
        if self._devices is not None:
            devices, self._devices = self._devices, None
            return DevicesReport(number=number, inventory=devices)
        if self._readings is not None:
            readings, self._readings = self._readings, None
            return ReadingsReport(
                number=number,
                at_us=readings.at_us,
                readings=readings.readings,
                disk_shortage=readings.disk_shortage,
                host_uses=readings.host_uses,
                copy_fault=readings.copy_fault,
            )
        return None


SILENT_BEATS: Final = 5
"""Missing heartbeats of the server before the connection is closed."""
FOLLOWED_MAX: Final = 1000

log: Final = logging.getLogger("aliquot.agent")


class Refused(Exception):
    """The server refused the connection; the message says why."""


class NotLeading(Refused):
    """Another server leads."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.leader = refusal.leader


class ServerSilent(Exception):
    """The server sent nothing for `SILENT_BEATS` heartbeats."""


@dataclass(slots=True)
class _Follower:
    """One output that the server follows."""

    credit: int
    task: asyncio.Task[None] | None = None
    more: asyncio.Event = field(default_factory=asyncio.Event)


class _Streams:
    """The streams that the server opened on one connection."""

    def __init__(self, core: AgentCore, channel: Channel, tasks: asyncio.TaskGroup) -> None:
        self._core = core
        self._channel = channel
        self._tasks = tasks
        self._open: dict[int, tuple[FlowStream, asyncio.Task[None]]] = {}

    def start(self, request: OpenStream) -> None:
        """Open a stream and carry it until either side closes it."""
        stream = FlowStream(request.request, send=self._channel.send)
        task = self._tasks.create_task(self._carry(request, stream))
        self._open[request.request] = stream, task
        # Not in the task: one that is cancelled before it has begun runs nothing.
        task.add_done_callback(lambda _: self._open.pop(request.request, None))

    def receive(self, message: StreamMessage) -> None:
        """Handle a message of the server; those of closed streams are ignored."""
        known = self._open.get(message.request)
        if known is None:
            return
        if isinstance(message, CloseStream):
            known[1].cancel()
        else:
            known[0].receive(message)

    async def _carry(self, request: OpenStream, stream: FlowStream) -> None:
        try:
            if len(self._open) > STREAMS_MAX:
                raise Unavailable(f"{STREAMS_MAX} streams of this agent are open already; try again later")
            socket = await self._core.open_stream(request.kernel_id, request.target)
            try:
                await self._channel.send(Answer(request=request.request))
                # In a task of its own, see `AgentSender.serve`.
                await asyncio.create_task(joined(stream, socket))
            finally:
                await socket.close()
        except Exception as error:
            await self._channel.send(Answer(request=request.request, failure=_failure(error)))


class AgentSession:
    """Serves one connection from the welcome to its end. Requests of the server run concurrently."""

    def __init__(self, core: AgentCore, channel: Channel, *, outbox: Outbox, beat_s: float) -> None:
        self._core = core
        self._channel = channel
        self._outbox = outbox
        self._beat_s = beat_s
        self._followers: dict[int, _Follower] = {}
        self._tasks: asyncio.TaskGroup
        self._streams: _Streams

    async def run(self) -> None:
        """Serve the connection until it ends.

        Raises:
            ExceptionGroup: of Refused, ServerSilent, ChannelClosed, ProtocolError, OutboxFull.
        """
        async with asyncio.TaskGroup() as self._tasks:
            self._streams = _Streams(self._core, self._channel, self._tasks)
            self._tasks.create_task(self._read())
            self._tasks.create_task(self._beat())
            self._tasks.create_task(self._check_silence())
            self._outbox.add(AgentJoined(inventory=await self._core.inventory()))
            self._tasks.create_task(self._send_reports())

    async def _read(self) -> None:
        while True:
            self._handle(await self._channel.receive())

    def _handle(self, message: Message) -> None:
        match message:
            case Launch() | Stop() | SendSignal() | SetLimit() | TellInventory():
                self._tasks.create_task(self._respond(message))
            case Forget(kernel_ids=kernel_ids):
                self._tasks.create_task(self._core.forget(kernel_ids))
            case FollowLog():
                self._follow(message)
            case LogCredit() | StopLog():
                self._update_follower(message)
            case OpenStream():
                self._streams.start(message)
            case StreamData() | StreamCredit() | CloseStream():
                self._streams.receive(message)
            case Acknowledged(number=number):
                self._outbox.acknowledge(number)
            case Heartbeat():
                pass
            case Refusal():
                raise refused(message)
            case _:
                raise ProtocolError(f"a server must not send {type(message).__name__} here")

    async def _respond(self, request: Launch | Stop | SendSignal | SetLimit | TellInventory) -> None:
        failure, inventory, exists = None, None, None
        try:
            inventory = await self._execute(request)
            if isinstance(request, TellInventory) and request.account:
                exists = await self._core.has_account(request.account)
        except Exception as error:
            failure = _failure(error)
        answer = Answer(request=request.request, failure=failure, inventory=inventory, account_exists=exists)
        await self._channel.send(answer)

    async def _execute(self, request: Launch | Stop | SendSignal | SetLimit | TellInventory) -> Inventory | None:
        match request:
            case Launch(orders=orders):
                await self._core.launch(orders)
            case Stop(kernel_id=kernel_id, epoch=epoch, grace_ms=grace_ms):
                await self._core.stop(kernel_id, epoch=epoch, grace_ms=grace_ms)
            case SendSignal(kernel_id=kernel_id, epoch=epoch, signal=signal):
                await self._core.send_signal(kernel_id, epoch=epoch, signal=signal)
            case SetLimit(kernel_id=kernel_id, epoch=epoch, time_limit_ms=time_limit_ms):
                await self._core.set_limit(kernel_id, epoch=epoch, time_limit_ms=time_limit_ms)
            case TellInventory():
                return await self._core.inventory()
        return None

    def _follow(self, request: FollowLog) -> None:
        if len(self._followers) >= FOLLOWED_MAX:
            error = to_failure(
                Unavailable(f"{FOLLOWED_MAX} outputs of this agent are followed already; try again later")
            )
            self._tasks.create_task(self._channel.send(Answer(request=request.request, failure=error)))
            return
        follower = self._followers[request.request] = _Follower(request.credit)
        follower.task = self._tasks.create_task(self._send_log(request, follower))

    async def _send_log(self, request: FollowLog, follower: _Follower) -> None:
        try:
            async for chunk in self._core.follow_log(request.kernel_id, offset=request.offset):
                while follower.credit < len(chunk.data):
                    follower.more.clear()
                    await follower.more.wait()
                follower.credit -= len(chunk.data)
                await self._channel.send(LogPiece(request=request.request, chunk=chunk))
        except Exception as error:
            await self._channel.send(Answer(request=request.request, failure=_failure(error)))
        finally:
            self._followers.pop(request.request, None)

    def _update_follower(self, request: LogCredit | StopLog) -> None:
        follower = self._followers.get(request.request)
        if follower is None:
            return
        if isinstance(request, LogCredit):
            follower.credit += request.credit
            follower.more.set()
        elif follower.task is not None:
            follower.task.cancel()

    async def _send_reports(self) -> None:
        while True:
            await self._channel.send(await self._outbox.next())

    async def _beat(self) -> None:
        while True:
            await self._channel.send(Heartbeat())
            await asyncio.sleep(self._beat_s)

    async def _check_silence(self) -> None:
        patience_s = SILENT_BEATS * self._beat_s
        while True:
            silent_s = time.monotonic() - self._channel.heard_at
            if silent_s > patience_s:
                raise ServerSilent(f"the server was silent for {silent_s:.1f} s")
            await asyncio.sleep(self._beat_s)


def refused(refusal: Refusal) -> Refused:
    """The exception for a refusal."""
    return NotLeading(refusal) if refusal.code == NOT_LEADER else Refused(refusal.message)


def _failure(error: Exception) -> Failure:
    if isinstance(error, AliquotError):
        return to_failure(error)
    log.error("a request failed", exc_info=error)
    return Failure(code=Unavailable.code, message=f"the agent failed: {type(error).__name__}: {error}")
