"""An open agent, as it speaks to one server at a time, whatever the connection is made of."""

import asyncio
import uuid
from collections.abc import Callable
from typing import Final

from aliquot.execution.agent.core import AgentCore
from aliquot.execution.remote.channel import Channel
from aliquot.execution.remote.connection_mark import marked
from aliquot.execution.remote.conversation import Conversation, Refused
from aliquot.execution.remote.dialing import Unreachable, introduce
from aliquot.execution.remote.outbox import Outbox
from aliquot_schema.agent_protocol import PROTOCOLS, Hello, Welcome
from aliquot_schema.errors import StateConflict

GREET_S_MAX: Final = 15.0


class AgentVoice:
    """Says hello on each connection with the same name and instance, and tells on it what the agent reports."""

    def __init__(self, core: AgentCore) -> None:
        self._core = core
        self._hello = Hello(
            agent_id=core.config.id,
            boot_id=core.config.node.boot_id,
            instance=uuid.uuid4().hex,
            software_version=core.config.software_version,
            protocols=PROTOCOLS,
        )
        self._outbox = Outbox()

    async def pass_on(self) -> None:
        """Give reports to the present connection until the agent is closed.

        Those of a time without a connection are in the next one's inventory.
        """
        async for message in self._core.reports():
            self._outbox.add(message)

    async def talk(self, channel: Channel, *, welcomed: Callable[[Welcome], None]) -> None:
        """Introduce the agent, and converse until the connection ends. One connection at a time.

        Raises:
            Refused, Unreachable, ChannelClosed, ProtocolError: the server did not welcome it.
            ExceptionGroup: see `Conversation.run`.
        """
        try:
            async with asyncio.timeout(GREET_S_MAX):
                welcome = await introduce(channel, self._hello)
        except TimeoutError:
            raise Unreachable("the server does not answer a hello") from None
        await self._check_epoch(welcome)
        outbox = self._outbox = Outbox()
        welcomed(welcome)
        conversation = Conversation(self._core, channel, outbox=outbox, beat_s=welcome.beat_s)
        try:
            async with marked(self._core.config.folder):
                # In a task of its own: before Python 3.11.5 a group that fails leaves its task half canceled, and then
                # the next time-out in it ends it. The same holds wherever a group may fail and its task goes on.
                await asyncio.create_task(conversation.run())
        finally:
            self._outbox = Outbox()

    async def _check_epoch(self, welcome: Welcome) -> None:
        """A server that was cut off may think that it leads still: it is not joined, and others may be asked."""
        if not welcome.epoch:
            return
        try:
            await self._core.check_epoch(welcome.epoch)
        except StateConflict as error:
            raise Refused(f"the server leads no more: {error.message}") from None
