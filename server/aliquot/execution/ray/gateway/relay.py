"""One connection between the server and an agent: carries its frames to and from the agent's actor."""

import asyncio
from typing import Any, Final

from aliquot.execution.ray.messages import Closed, Frame, FromGateway, FromServer, Opened, Taken
from aliquot.execution.ray.pipe import Pipe

BRING_BYTES_MAX: Final = 256 * 1024


class Relay:
    """Frames keep their order in each direction: there is one call of each kind at a time."""

    def __init__(
        self, actor: Any, agent_id: str, *, connection: tuple[int, int, int], server: Pipe[FromServer]
    ) -> None:
        """
        Args:
            actor: a handle of a `NodeActor`.
        """
        self._actor = actor
        self._agent_id = agent_id
        self.connection = connection
        self._server = server
        self._frames: asyncio.Queue[bytes | None] = asyncio.Queue()

    def hear(self, message: FromServer) -> None:
        """Take what the server says on this connection."""
        self._frames.put_nowait(message.data if isinstance(message, Frame) else None)

    async def run(self) -> None:
        """Tell the server, carry frames until either side ends the connection, and end it on the other side.

        Raises:
            RayActorError: the actor is gone.
        """
        *_, number = self.connection
        await self._tell(Opened(connection=number, agent_id=self._agent_id))
        tasks = [asyncio.create_task(work) for work in (self._fetch(number), self._bring(number))]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            task.result()
        await self._tell(Closed(connection=number))
        await self._actor.disconnect.remote(self._agent_id, self.connection)

    async def _fetch(self, number: int) -> None:
        while (frames := await self._actor.fetch.remote(self._agent_id, self.connection)) is not None:
            for frame in frames:
                await self._tell(Frame(connection=number, data=frame))

    async def _bring(self, number: int) -> None:
        is_open = True
        while is_open and (first := await self._frames.get()) is not None:
            frames, ends = self._waiting(first)
            is_open = await self._actor.bring.remote(self._agent_id, self.connection, frames) and not ends
            await self._tell(Taken(connection=number, size=sum(map(len, frames))))

    def _waiting(self, first: bytes) -> tuple[list[bytes], bool]:
        """What can go in one call, and whether the connection ends after it."""
        frames, size = [first], len(first)
        while not self._frames.empty() and size < BRING_BYTES_MAX:
            frame = self._frames.get_nowait()
            if frame is None:
                return frames, True
            frames.append(frame)
            size += len(frame)
        return frames, False

    async def _tell(self, message: FromGateway) -> None:
        await self._server.send(message)
