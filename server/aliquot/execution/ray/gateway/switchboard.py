"""Numbers the connections of this gateway, and gives each what the server says on it."""

import itertools
import time
from typing import Any

from aliquot.execution.ray.gateway.relay import Relay
from aliquot.execution.ray.messages import Closed, FromServer
from aliquot.execution.ray.pipe import Pipe


class Switchboard:
    """Connections of a later gateway count as newer: its server's term and the wall clock of its start say so."""

    def __init__(self, server: Pipe[FromServer], *, epoch: int = 0) -> None:
        self._server = server
        self._life = epoch, time.time_ns()
        self._numbers = itertools.count(1)
        self._relays: dict[int, Relay] = {}

    def relay(self, actor: Any, agent_id: str) -> Relay:
        """A new connection to an agent; it is to be forgotten when it is over."""
        number = next(self._numbers)
        relay = Relay(actor, agent_id, connection=(*self._life, number), server=self._server)
        self._relays[number] = relay
        return relay

    def forget(self, relay: Relay) -> None:
        """The connection is over."""
        self._relays.pop(relay.connection[-1], None)

    async def lost(self, relay: Relay) -> None:
        """Tell the server that the agent's process is gone, and the connection with it."""
        await self._server.send(Closed(connection=relay.connection[-1], died=True))

    async def listen(self) -> None:
        """Hand on what the server says, for ever.

        Raises:
            PipeBroken: the server is gone.
        """
        while True:
            message = await self._server.receive()
            relay = self._relays.get(message.connection)
            if relay is not None:
                relay.hear(message)
