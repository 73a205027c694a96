"""One agent inside an actor: opened, kept open, and talked to over the newest connection."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from aliquot.errors import ServerError
from aliquot.execution.agent.core import AgentCore
from aliquot.execution.devices.plugin import DeviceFileError
from aliquot.execution.ray.agent_wire import AgentWire
from aliquot.execution.remote.channel import Channel, ChannelClosed
from aliquot.execution.remote.codec import ProtocolError
from aliquot.execution.remote.conversation import Refused, ServerSilent
from aliquot.execution.remote.dialing import Unreachable
from aliquot.execution.remote.outbox import OutboxFull
from aliquot.execution.remote.voice import AgentVoice
from aliquot_schema.errors import AliquotError, Unavailable

OPEN_AGAIN_S: Final = 0.5
"""How often to try: the actor before this one may still hold the folder."""

Connection = tuple[int, int, int]
"""The term of its server, when its gateway was started, and its number there: a later one is greater."""

log: Final = logging.getLogger("aliquot.agent")


class HostedAgent:
    """Begins to open itself when it is made."""

    def __init__(self, make: Callable[[], AgentCore]) -> None:
        """
        Args:
            make: called for each try to open.
        """
        self.problem: str | None = "it is not open yet"
        """Why it cannot be talked to."""
        self._make = make
        self._core: AgentCore | None = None
        self._voice: AgentVoice | None = None
        self._wire = AgentWire()
        self._connection: Connection = (0, 0, 0)
        self._talking: asyncio.Task[None] | None = None
        self._connecting = asyncio.Lock()
        self._living = asyncio.get_running_loop().create_task(self._live())

    async def connect(self, connection: Connection) -> str | None:
        """Begin to talk, in the place of an older connection; words when that cannot be.

        An older one than the present is refused while that is talked over: a gateway that was replaced, or calls that
        waited here while this process was frozen.
        """
        async with self._connecting:
            if self._voice is None:
                return self.problem
            if connection <= self._connection and self._talking is not None and not self._talking.done():
                return "there is a newer connection"
            await self._hang_up()
            self._connection, self._wire = connection, AgentWire()
            self._talking = asyncio.get_running_loop().create_task(self._talk(self._voice, self._wire))
            return None

    async def disconnect(self, connection: Connection) -> None:
        """End a connection, if it is the present one."""
        async with self._connecting:
            if connection == self._connection:
                await self._hang_up()

    def bring(self, connection: Connection, frames: Sequence[bytes]) -> bool:
        """See `AgentWire.bring`."""
        return connection == self._connection and self._wire.bring(frames)

    async def fetch(self, connection: Connection) -> list[bytes] | None:
        """See `AgentWire.fetch`."""
        return await self._wire.fetch() if connection == self._connection else None

    async def close(self) -> None:
        """Let go of the agent; kernels run on."""
        async with self._connecting:
            await self._hang_up()
        if self._core is None:
            self._living.cancel()
        else:
            await self._core.close()
        await asyncio.gather(self._living, return_exceptions=True)

    async def _live(self) -> None:
        core = self._core = await self._opened()
        self._voice, self.problem = AgentVoice(core), None
        log.info("agent %s is open in %s", core.config.id, core.config.folder)
        await self._voice.pass_on()

    async def _opened(self) -> AgentCore:
        while True:
            try:
                core = self._make()
                await core.open()
                return core
            except (AliquotError, ServerError, DeviceFileError, OSError) as error:
                self.problem = str(error)
            except Exception as error:
                self.problem = f"it cannot be opened: {type(error).__name__}: {error}"
                log.exception("an agent cannot be opened")
            await asyncio.sleep(OPEN_AGAIN_S)

    async def _hang_up(self) -> None:
        if self._talking is not None:
            self._talking.cancel()
            await asyncio.gather(self._talking, return_exceptions=True)
            self._talking = None

    async def _talk(self, voice: AgentVoice, wire: AgentWire) -> None:
        try:
            await voice.talk(Channel(wire), welcomed=lambda _: None)
        except* (Refused, Unreachable, ServerSilent, ChannelClosed, ProtocolError, OutboxFull, Unavailable) as ends:
            log.info("the connection has ended: %s", "; ".join(map(repr, ends.exceptions)))
        except* Exception as faults:
            log.error("the connection failed", exc_info=faults)
        finally:
            await wire.close(code=1000, reason="")
