"""Ray actor: the class of which Ray makes one actor per node.

Ray ships the class from the gateway, while everything it imports is the node's. So it only forwards calls, and imports
nothing before it runs.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aliquot.execution.ray.hosting import ActorDescription


class NodeActor:
    """The actor class. All methods are coroutines, so Ray runs them concurrently in one event loop."""

    def __init__(self) -> None:
        from aliquot.execution.ray.hosting import Hosting

        self._hosting = Hosting()

    async def describe(self) -> "ActorDescription":
        """See `Hosting`, here and below."""
        return await self._hosting.describe()

    async def connect(self, agent_id: str, connection: tuple[int, int, int]) -> str | None:
        return await self._hosting.connect(agent_id, connection)

    async def disconnect(self, agent_id: str, connection: tuple[int, int, int]) -> None:
        await self._hosting.disconnect(agent_id, connection)

    async def bring(self, agent_id: str, connection: tuple[int, int, int], frames: list[bytes]) -> bool:
        return self._hosting.bring(agent_id, connection, frames)

    async def fetch(self, agent_id: str, connection: tuple[int, int, int]) -> list[bytes] | None:
        return await self._hosting.fetch(agent_id, connection)
