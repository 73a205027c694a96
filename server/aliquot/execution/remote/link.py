"""Agent link: the server's side of one agent's connection, with its timing limits and its followed outputs.

Followed outputs are flow-controlled: the agent sends only as many bytes as it was granted credit for.
"""

import asyncio
import itertools
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Final

from msgspec.structs import replace

from aliquot.execution.remote.codec import MESSAGE_BYTES_MAX, Channel, ChannelClosed, ProtocolError, from_failure
from aliquot.execution.remote.flow_control import FlowStream
from aliquot.execution.remote.presence import HeartbeatTiming
from aliquot_schema.cluster.agent_protocol import (
    LOG_WINDOW_BYTES,
    NOT_LEADER,
    WINDOW,
    Acknowledged,
    Answer,
    CloseStream,
    DevicesReport,
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
    message_fault,
)
from aliquot_schema.cluster.launching import Inventory, LogChunk
from aliquot_schema.cluster.streams import StreamTarget
from aliquot_schema.errors import AliquotError, Unavailable
from aliquot_schema.ids import AgentId, KernelId
from aliquot_schema.resources.confinement import ABILITIES


class LogStream:
    """Buffer of one followed output: pieces received and not yet consumed."""

    def __init__(self) -> None:
        self._pieces: asyncio.Queue[LogChunk | AliquotError] = asyncio.Queue()
        self._bytes = 0

    def put(self, chunk: LogChunk) -> None:
        """Store a received piece.

        Raises:
            ProtocolError: the agent exceeded its credit.
        """
        self._bytes += len(chunk.data)
        if self._bytes > LOG_WINDOW_BYTES:
            raise ProtocolError("the agent sent more of an output than its credit allows")
        self._pieces.put_nowait(chunk)

    def fail(self, error: AliquotError) -> None:
        """End the stream with an error."""
        self._pieces.put_nowait(error)

    async def pieces(self) -> AsyncIterator[LogChunk]:
        """The pieces in order, up to the one with `at_end`.

        Raises:
            AliquotError: the error of `fail`.
        """
        while True:
            piece = await self._pieces.get()
            if isinstance(piece, AliquotError):
                raise piece
            self._bytes -= len(piece.data)
            yield piece
            if piece.at_end:
                return


CLOSE_CODES: Final = {
    "protocol": 4400,
    "key": 4403,
    "silent": 4408,
    NOT_LEADER: 4421,
    "already_connected": 4409,
    "replaced": 4410,
    "elsewhere": 4411,
}
BROKEN: Final = 4500
FAREWELL_S_MAX: Final = 1.0
ID_CHARS_SHOWN: Final = 80

Request = Launch | Stop | SendSignal | SetLimit | TellInventory | OpenStream


class LinkEnded(Exception):
    """The connection has ended; with the refusal if this side ended it."""

    def __init__(self, refusal: Refusal | None = None) -> None:
        super().__init__("the connection has ended" if refusal is None else refusal.message)
        self.refusal = refusal


class AgentLink:
    """Carries requests to one agent and its reports back while `run` runs."""

    def __init__(
        self,
        channel: Channel,
        *,
        hello: Hello,
        key: str | None,
        timing: HeartbeatTiming,
        accept: Callable[["AgentLink", Report], None],
        on_joined: Callable[[], None] = lambda: None,
    ) -> None:
        """
        Args:
            key: the agent's key, which is verified again periodically; None = no key needed.
            accept: called for each report, in order; confirms it later with `acknowledge`.
            on_joined: called when the first report, the inventory, is acknowledged.
        """
        self.hello = hello
        self.key = key
        self.has_left = False
        self.fault: str | None = None
        """The protocol violation that ended the connection; None = none."""
        self._channel = channel
        self.timing = timing
        self._accept = accept
        self._on_joined = on_joined
        self._requests = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Answer]] = {}
        self._streams: dict[int, LogStream] = {}
        self._flows: dict[int, FlowStream] = {}
        self._reported = 0
        self._acknowledged = 0
        self._changed = asyncio.Event()
        self._over: asyncio.Future[Refusal] = asyncio.get_running_loop().create_future()
        self._sending: set[asyncio.Task[None]] = set()

    @property
    def agent_id(self) -> AgentId:
        return self.hello.agent_id

    @property
    def heard_at(self) -> float:
        """Time of the last message from the agent, seconds of the monotonic clock."""
        return self._channel.heard_at

    @property
    def is_over(self) -> bool:
        """Whether the connection no longer accepts requests."""
        return self._over.done()

    def end(self, *, code: str, message: str) -> None:
        """Close the connection with a reason for the agent."""
        if not self._over.done():
            self._over.set_result(Refusal(code=code, message=message))

    def acknowledge(self, number: int) -> None:
        """Confirm a report and all before it."""
        if self._acknowledged == 0:
            self._on_joined()
        self._acknowledged = max(self._acknowledged, number)
        self._changed.set()

    async def run(self) -> None:
        """Serve the connection until either side ends it; errors of the agent are not raised."""
        tasks = [asyncio.create_task(work) for work in (self._read(), self._beat(), self._acknowledge(), self._wait())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.end(code="broken", message="the connection has ended")
            for task in (*tasks, *self._sending):
                task.cancel()
            await asyncio.gather(*tasks, *self._sending, return_exceptions=True)
            self._fail_all()
        await self._close_with_reason(done)

    async def ask(self, message: Request) -> Answer:
        """Send a request, with a new number if it has none, and wait for its answer.

        Raises:
            Unavailable: no answer arrived; whether the request was executed is unknown.
            AliquotError: the agent refused the request.
        """
        numbered = message if message.request else replace(message, request=next(self._requests))
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._answers[numbered.request] = future
        try:
            async with asyncio.timeout(self.timing.answer_s):
                await self._send(numbered)
                answer = await future
        except TimeoutError:
            # A listing or metrics may take long; they change nothing. Whether any other request was executed shows when
            # the agent connects again.
            if not isinstance(message, OpenStream) or message.target.files is None:
                self.end(code="silent", message=f"a request was not answered within {self.timing.answer_s:g} s")
            raise Unavailable(f"agent {self.agent_id} did not answer within {self.timing.answer_s:g} s") from None
        finally:
            self._answers.pop(numbered.request, None)
        if answer.failure is not None:
            raise from_failure(answer.failure)
        return answer

    def described(self, inventory: Inventory) -> Inventory:
        """An inventory of the agent, with the abilities that its release lacks."""
        agent = inventory.agent
        lacks = tuple(field for field in ABILITIES if field not in self.hello.order_fields)
        if agent.capabilities.lacks == lacks:
            return inventory
        return replace(inventory, agent=replace(agent, capabilities=replace(agent.capabilities, lacks=lacks)))

    def _cannot(self, ability: str) -> str:
        return f"agent {self.agent_id} ({self.hello.software_version}) cannot {ability}; upgrade it"

    async def set_limit(self, kernel_id: KernelId, *, epoch: int, time_limit_ms: int) -> None:
        """Change the time limit of a kernel.

        Raises:
            Unavailable: the agent is of an earlier version, or no answer arrived.
            AliquotError: see `AgentCore.set_limit`.
        """
        if not self.hello.has_limits:
            raise Unavailable(self._cannot("change a time limit"))
        await self.ask(SetLimit(request=0, kernel_id=kernel_id, epoch=epoch, time_limit_ms=time_limit_ms))

    async def open_stream(self, kernel_id: KernelId, target: StreamTarget) -> FlowStream:
        """Open a stream to a kernel.

        Raises:
            Unavailable: the agent is of an earlier version, or no answer arrived.
            AliquotError: see `AgentCore.open_stream`.
        """
        if not self.hello.has_streams:
            raise Unavailable(self._cannot("open terminals, forward ports or send result files"))
        request = next(self._requests)
        stream = self._flows[request] = _LinkStream(request, send=self._send, forget=self._flows.pop)
        try:
            await self.ask(OpenStream(request=request, kernel_id=kernel_id, target=target))
        except BaseException:
            self._flows.pop(request, None)
            if not self.is_over:
                self._send_soon(CloseStream(request=request))
            raise
        return stream

    async def notify(self, message: Forget) -> None:
        """Send a message that has no answer.

        Raises:
            Unavailable: the connection has ended.
        """
        await self._send(message)

    async def follow(self, kernel_id: KernelId, *, offset: int) -> AsyncGenerator[LogChunk, None]:
        """A kernel's output; see `ports.Executor.follow_log`."""
        request = next(self._requests)
        stream = self._streams[request] = LogStream()
        at_end = False
        try:
            await self._send(FollowLog(request=request, kernel_id=kernel_id, offset=offset, credit=LOG_WINDOW_BYTES))
            async for chunk in stream.pieces():
                at_end = chunk.at_end
                yield chunk
                if not at_end and chunk.data:
                    await self._send(LogCredit(request=request, credit=len(chunk.data)))
        finally:
            del self._streams[request]
            if not at_end and not self.is_over:
                self._send_soon(StopLog(request=request))

    async def _send(self, message: Message) -> None:
        if self.is_over:
            raise self._gone()
        try:
            await self._channel.send(message)
        except ChannelClosed:
            raise self._gone() from None

    def _send_soon(self, message: Message) -> None:
        async def send() -> None:
            with suppress(Unavailable):
                await self._send(message)

        task = asyncio.get_running_loop().create_task(send())
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _read(self) -> None:
        while True:
            message = await self._channel.receive()
            fault = message_fault(message)
            if fault is not None:
                raise ProtocolError(f"{type(message).__name__} of agent {self.agent_id}: {fault}")
            self._handle(message)

    def _handle(self, message: Message) -> None:
        match message:
            case StateReport() | DevicesReport() | ReadingsReport() | KernelChangeReport():
                self._accept_report(message)
            case Answer():
                self._accept_answer(message)
            case LogPiece(request=request, chunk=chunk):
                if request in self._streams:
                    self._streams[request].put(chunk)
            case StreamData() | StreamCredit() | CloseStream():
                if message.request in self._flows:
                    self._flows[message.request].receive(message)
            case Goodbye():
                self.has_left = True
            case Heartbeat():
                pass
            case _:
                raise ProtocolError(f"an agent must not send {type(message).__name__} here")

    def _accept_answer(self, answer: Answer) -> None:
        if answer.inventory is not None:
            self._check_own(answer.inventory)
        stream, future = self._streams.get(answer.request), self._answers.get(answer.request)
        if stream is not None and answer.failure is not None:
            stream.fail(from_failure(answer.failure))
        elif future is not None and not future.done():
            future.set_result(answer)

    def _accept_report(self, report: Report) -> None:
        self._reported += 1
        if report.number != self._reported or (self._reported == 1) != isinstance(report, StateReport):
            raise ProtocolError(f"received report {report.number} instead of {self._reported}")
        if self._reported > self._acknowledged + WINDOW:
            raise ProtocolError(f"more than {WINDOW} reports are not acknowledged")
        if isinstance(report, StateReport | DevicesReport):
            self._check_own(report.inventory)
        self._accept(self, report)
        if isinstance(report, StateReport) and not self.is_over:
            self._channel.expect(MESSAGE_BYTES_MAX)

    def _check_own(self, inventory: Inventory) -> None:
        if inventory.agent.id != self.agent_id:
            raise ProtocolError(f"{self.agent_id} sent the inventory of {inventory.agent.id[:ID_CHARS_SHOWN]!a}")

    async def _beat(self) -> None:
        while True:
            await self._channel.send(Heartbeat())
            await asyncio.sleep(self.timing.beat_s)

    async def _acknowledge(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._channel.send(Acknowledged(number=self._acknowledged))

    async def _wait(self) -> None:
        await asyncio.wait({self._over})
        raise LinkEnded(self._over.result())

    async def _close_with_reason(self, done: set[asyncio.Task[None]]) -> None:
        """Close with a reason, unless the agent is gone already."""
        errors = [task.exception() for task in done]
        refusal = next((error.refusal for error in errors if isinstance(error, LinkEnded)), None)
        faults = [error for error in errors if not isinstance(error, LinkEnded | ChannelClosed | ProtocolError)]
        broken = next((error for error in errors if isinstance(error, ProtocolError)), None)
        if broken is not None:
            self.fault = str(broken)
            refusal = Refusal(code="broken", message=self.fault)
        if refusal is not None:
            await close_with_refusal(self._channel, refusal)
        if refusal is None and any(faults):
            raise next(error for error in faults if error is not None)

    def _fail_all(self) -> None:
        for future in self._answers.values():
            if not future.done():
                future.set_exception(self._gone())
                future.exception()  # mark as retrieved: the caller may have been cancelled
        for stream in self._streams.values():
            stream.fail(self._gone())
        for flow in self._flows.values():
            flow.fail(self._gone())

    def _gone(self) -> Unavailable:
        return Unavailable(f"the connection to agent {self.agent_id} was lost")


class _LinkStream(FlowStream):
    """A stream that the link forgets when it is closed."""

    def __init__(
        self,
        request: int,
        *,
        send: Callable[[StreamMessage], Awaitable[None]],
        forget: Callable[[int, None], object],
    ) -> None:
        super().__init__(request, send=send)
        self._number = request
        self._forget = forget

    async def close(self) -> None:
        """Close both directions."""
        self._forget(self._number, None)
        with suppress(Unavailable):
            await super().close()


async def close_with_refusal(channel: Channel, refusal: Refusal) -> None:
    """Send the reason and close the connection; gives up after `FAREWELL_S_MAX`."""
    with suppress(TimeoutError, ChannelClosed):
        async with asyncio.timeout(FAREWELL_S_MAX):
            await channel.send(refusal)
            await channel.close(code=CLOSE_CODES.get(refusal.code, BROKEN), reason=refusal.code)


def silent_for_s(link: AgentLink) -> float:
    """Seconds since the last message from the agent."""
    return time.monotonic() - link.heard_at
