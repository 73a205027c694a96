"""The server's side of one agent's connection."""

import asyncio
import itertools
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final

from aliquot.execution.remote.channel import Channel, ChannelClosed
from aliquot.execution.remote.codec import ProtocolError
from aliquot.execution.remote.failures import from_failure
from aliquot.execution.remote.log_stream import LogStream
from aliquot.execution.remote.timing import Timing
from aliquot_schema.agent_protocol import (
    LOG_WINDOW_BYTES,
    NOT_LEADER,
    WINDOW,
    Acknowledged,
    Answer,
    Beat,
    DevicesTold,
    EndLog,
    FollowLog,
    Forget,
    GoodBye,
    Hello,
    Joined,
    KernelTold,
    Launch,
    LogPiece,
    Message,
    MoreLog,
    ReadingsTold,
    Refusal,
    Report,
    SendSignal,
    Stop,
    TellInventory,
)
from aliquot_schema.errors import Unavailable
from aliquot_schema.ids import AgentId, KernelId
from aliquot_schema.launching import LogChunk

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

Asked = Launch | Stop | SendSignal | TellInventory


class LinkEnded(Exception):
    """The connection is over; with words when this side ended it."""

    def __init__(self, refusal: Refusal | None = None) -> None:
        super().__init__("the connection has ended" if refusal is None else refusal.message)
        self.refusal = refusal


class AgentLink:
    """Carries requests to one agent and its reports back, as long as `run` runs."""

    def __init__(
        self,
        channel: Channel,
        *,
        hello: Hello,
        key: str | None,
        timing: Timing,
        take: Callable[["AgentLink", Report], None],
    ) -> None:
        """
        Args:
            key: as it was shown; it is asked again whether it still holds. None needs no asking.
            take: told of each report, in order; answers later, with `acknowledge`.
        """
        self.hello = hello
        self.key = key
        self.said_good_bye = False
        self._channel = channel
        self._timing = timing
        self._take = take
        self._requests = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Answer]] = {}
        self._streams: dict[int, LogStream] = {}
        self._told = 0
        self._acknowledged = 0
        self._news = asyncio.Event()
        self._over: asyncio.Future[Refusal] = asyncio.get_running_loop().create_future()
        self._sending: set[asyncio.Task[None]] = set()

    @property
    def agent_id(self) -> AgentId:
        return self.hello.agent_id

    @property
    def heard_at(self) -> float:
        """When the agent last sent anything, seconds of the monotonic clock."""
        return self._channel.heard_at

    @property
    def is_over(self) -> bool:
        """Whether nothing can be asked any more."""
        return self._over.done()

    def end(self, *, code: str, message: str) -> None:
        """Have the connection closed, with words for the agent."""
        if not self._over.done():
            self._over.set_result(Refusal(code=code, message=message))

    def acknowledge(self, number: int) -> None:
        """The report was taken, and all before it."""
        self._acknowledged = max(self._acknowledged, number)
        self._news.set()

    async def run(self) -> None:
        """Serve the connection until either side ends it; never raises for what the agent does."""
        tasks = [asyncio.create_task(work) for work in (self._read(), self._beat(), self._acknowledge(), self._wait())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.end(code="broken", message="the connection has ended")
            for task in (*tasks, *self._sending):
                task.cancel()
            await asyncio.gather(*tasks, *self._sending, return_exceptions=True)
            self._fail_all()
        await self._say_why(done)

    async def ask(self, message: Asked) -> Answer:
        """Send a request, numbered here, and wait for its answer.

        Raises:
            Unavailable: there was no answer; whether the request was carried out is not known.
            AliquotError: the agent's own refusal.
        """
        numbered = replace(message, request=next(self._requests))
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._answers[numbered.request] = future
        try:
            async with asyncio.timeout(self._timing.answer_s):
                await self._send(numbered)
                answer = await future
        except TimeoutError:
            # What it has done is found out when it dials in again.
            self.end(code="silent", message="a request was not answered in time")
            raise Unavailable(f"agent {self.agent_id} did not answer in {self._timing.answer_s:g} s") from None
        finally:
            self._answers.pop(numbered.request, None)
        if answer.failure is not None:
            raise from_failure(answer.failure)
        return answer

    async def tell(self, message: Forget) -> None:
        """Send what is not answered.

        Raises:
            Unavailable: the connection is over.
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
                    await self._send(MoreLog(request=request, credit=len(chunk.data)))
        finally:
            del self._streams[request]
            if not at_end and not self.is_over:
                self._send_soon(EndLog(request=request))

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
            self._hear(await self._channel.receive())

    def _hear(self, message: Message) -> None:
        match message:
            case Joined() | DevicesTold() | ReadingsTold() | KernelTold():
                self._take_report(message)
            case Answer(request=request) if request in self._streams:
                assert message.failure is not None or message.inventory is None
                if message.failure is not None:
                    self._streams[request].fail(from_failure(message.failure))
            case Answer(request=request):
                future = self._answers.get(request)
                if future is not None and not future.done():
                    future.set_result(message)
            case LogPiece(request=request, chunk=chunk):
                if request in self._streams:
                    self._streams[request].put(chunk)
            case GoodBye():
                self.said_good_bye = True
            case Beat():
                pass
            case _:
                raise ProtocolError(f"{type(message).__name__} is not for an agent to say here")

    def _take_report(self, report: Report) -> None:
        self._told += 1
        if report.number != self._told or (self._told == 1) != isinstance(report, Joined):
            raise ProtocolError(f"report {report.number} came where {self._told} was to come")
        if self._told > self._acknowledged + WINDOW:
            raise ProtocolError("more reports came than may be under way")
        if isinstance(report, Joined | DevicesTold) and report.inventory.agent.id != self.agent_id:
            raise ProtocolError(f"{self.agent_id} told the inventory of {report.inventory.agent.id}")
        self._take(self, report)

    async def _beat(self) -> None:
        while True:
            await self._channel.send(Beat())
            await asyncio.sleep(self._timing.beat_s)

    async def _acknowledge(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            await self._channel.send(Acknowledged(number=self._acknowledged))

    async def _wait(self) -> None:
        raise LinkEnded(await asyncio.shield(self._over))

    async def _say_why(self, done: set[asyncio.Task[None]]) -> None:
        """Close with words, unless the agent is gone already; one that does not read gets none."""
        errors = [task.exception() for task in done]
        refusal = next((error.refusal for error in errors if isinstance(error, LinkEnded)), None)
        faults = [error for error in errors if not isinstance(error, LinkEnded | ChannelClosed | ProtocolError)]
        refusal = next((_broken(error) for error in errors if isinstance(error, ProtocolError)), refusal)
        if refusal is not None:
            await farewell(self._channel, refusal)
        if refusal is None and any(faults):
            raise next(error for error in faults if error is not None)

    def _fail_all(self) -> None:
        for future in self._answers.values():
            if not future.done():
                future.set_exception(self._gone())
                future.exception()  # the one who waits may have been cancelled
        for stream in self._streams.values():
            stream.fail(self._gone())

    def _gone(self) -> Unavailable:
        return Unavailable(f"the connection to agent {self.agent_id} was lost")


async def farewell(channel: Channel, refusal: Refusal) -> None:
    """Say why the connection ends, and end it; with little patience for one that does not read."""
    with suppress(TimeoutError, ChannelClosed):
        async with asyncio.timeout(FAREWELL_S_MAX):
            await channel.send(refusal)
            await channel.close(code=CLOSE_CODES.get(refusal.code, BROKEN), reason=refusal.code)


def silent_for_s(link: AgentLink) -> float:
    """How long the agent has said nothing."""
    return time.monotonic() - link.heard_at


def _broken(error: ProtocolError) -> Refusal:
    return Refusal(code="broken", message=str(error))
