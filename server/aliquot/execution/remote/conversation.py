"""The agent's side of one connection: carries out what the server asks, and tells what happens."""

import asyncio
import logging
import time
from dataclasses import dataclass, field
from typing import Final

from aliquot.execution.agent.core import AgentCore
from aliquot.execution.remote.channel import Channel
from aliquot.execution.remote.codec import ProtocolError
from aliquot.execution.remote.failures import to_failure
from aliquot.execution.remote.outbox import Outbox
from aliquot_schema.agent_protocol import (
    NOT_LEADER,
    Acknowledged,
    Answer,
    Beat,
    EndLog,
    Failure,
    FollowLog,
    Forget,
    Launch,
    LogPiece,
    Message,
    MoreLog,
    Refusal,
    SendSignal,
    Stop,
    TellInventory,
)
from aliquot_schema.errors import AliquotError, Unavailable
from aliquot_schema.launching import AgentJoined, Inventory

SILENT_BEATS: Final = 5
"""Beats of the server that may be missing before the connection is given up."""
FOLLOWED_MAX: Final = 1000

log: Final = logging.getLogger("aliquot.agent")


class Refused(Exception):
    """The server does not want this connection; the message says why."""


class NotLeading(Refused):
    """Another server leads."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.leader = refusal.leader


class ServerSilent(Exception):
    """Nothing came from the server for too long."""


@dataclass(slots=True)
class _Follower:
    """One output that the server follows."""

    credit: int
    task: asyncio.Task[None] | None = None
    more: asyncio.Event = field(default_factory=asyncio.Event)


class Conversation:
    """Runs from the welcome to the end of the connection. Requests of the server are carried out side by side."""

    def __init__(self, core: AgentCore, channel: Channel, *, outbox: Outbox, beat_s: float) -> None:
        self._core = core
        self._channel = channel
        self._outbox = outbox
        self._beat_s = beat_s
        self._followers: dict[int, _Follower] = {}
        self._tasks: asyncio.TaskGroup

    async def run(self) -> None:
        """Talk until the connection ends.

        Raises:
            ExceptionGroup: of Refused, ServerSilent, ChannelClosed, ProtocolError, OutboxFull.
        """
        async with asyncio.TaskGroup() as self._tasks:
            self._tasks.create_task(self._read())
            self._tasks.create_task(self._beat())
            self._tasks.create_task(self._listen_for_silence())
            self._outbox.add(AgentJoined(inventory=await self._core.inventory()))
            self._tasks.create_task(self._tell())

    async def _read(self) -> None:
        while True:
            self._hear(await self._channel.receive())

    def _hear(self, message: Message) -> None:
        match message:
            case Launch() | Stop() | SendSignal() | TellInventory():
                self._tasks.create_task(self._carry_out(message))
            case Forget(kernel_ids=kernel_ids):
                self._tasks.create_task(self._core.forget(kernel_ids))
            case FollowLog():
                self._follow(message)
            case MoreLog() | EndLog():
                self._go_on_with_log(message)
            case Acknowledged(number=number):
                self._outbox.acknowledge(number)
            case Beat():
                pass
            case Refusal():
                raise refused(message)
            case _:
                raise ProtocolError(f"{type(message).__name__} is not for a server to say here")

    async def _carry_out(self, asked: Launch | Stop | SendSignal | TellInventory) -> None:
        failure, inventory = None, None
        try:
            inventory = await self._work(asked)
        except Exception as error:
            failure = _failure(error)
        await self._channel.send(Answer(request=asked.request, failure=failure, inventory=inventory))

    async def _work(self, asked: Launch | Stop | SendSignal | TellInventory) -> Inventory | None:
        match asked:
            case Launch(orders=orders):
                await self._core.launch(orders)
            case Stop(kernel_id=kernel_id, epoch=epoch, grace_ms=grace_ms):
                await self._core.stop(kernel_id, epoch=epoch, grace_ms=grace_ms)
            case SendSignal(kernel_id=kernel_id, epoch=epoch, signal=signal):
                await self._core.send_signal(kernel_id, epoch=epoch, signal=signal)
            case TellInventory():
                return await self._core.inventory()
        return None

    def _follow(self, asked: FollowLog) -> None:
        if len(self._followers) >= FOLLOWED_MAX:
            error = to_failure(Unavailable(f"{FOLLOWED_MAX} outputs of this agent are followed already"))
            self._tasks.create_task(self._channel.send(Answer(request=asked.request, failure=error)))
            return
        follower = self._followers[asked.request] = _Follower(asked.credit)
        follower.task = self._tasks.create_task(self._send_log(asked, follower))

    async def _send_log(self, asked: FollowLog, follower: _Follower) -> None:
        try:
            async for chunk in self._core.follow_log(asked.kernel_id, offset=asked.offset):
                while follower.credit < len(chunk.data):
                    follower.more.clear()
                    await follower.more.wait()
                follower.credit -= len(chunk.data)
                await self._channel.send(LogPiece(request=asked.request, chunk=chunk))
        except Exception as error:
            await self._channel.send(Answer(request=asked.request, failure=_failure(error)))
        finally:
            self._followers.pop(asked.request, None)

    def _go_on_with_log(self, asked: MoreLog | EndLog) -> None:
        follower = self._followers.get(asked.request)
        if follower is None:
            return
        if isinstance(asked, MoreLog):
            follower.credit += asked.credit
            follower.more.set()
        elif follower.task is not None:
            follower.task.cancel()

    async def _tell(self) -> None:
        while True:
            await self._channel.send(await self._outbox.next())

    async def _beat(self) -> None:
        while True:
            await self._channel.send(Beat())
            await asyncio.sleep(self._beat_s)

    async def _listen_for_silence(self) -> None:
        patience_s = SILENT_BEATS * self._beat_s
        while True:
            silent_s = time.monotonic() - self._channel.heard_at
            if silent_s > patience_s:
                raise ServerSilent(f"the server was silent for {silent_s:.1f} s")
            await asyncio.sleep(self._beat_s)


def refused(refusal: Refusal) -> Refused:
    """A refusal, to be raised."""
    return NotLeading(refusal) if refusal.code == NOT_LEADER else Refused(refusal.message)


def _failure(error: Exception) -> Failure:
    if isinstance(error, AliquotError):
        return to_failure(error)
    log.error("a request failed", exc_info=error)
    return Failure(code=Unavailable.code, message=f"the agent failed: {type(error).__name__}: {error}")
