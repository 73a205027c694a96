"""Outputs of jobs at a server that does not always lead: its own agents tell them, else the server that leads."""

from collections.abc import AsyncIterator, Callable

import httpx

from aliquot.api.output_frames import unframed
from aliquot.api.outputs import OUTPUTS_PATH
from aliquot.service.ports import Executor
from aliquot_schema.errors import NotFound, Unavailable
from aliquot_schema.ids import AgentId, KernelId
from aliquot_schema.launching import LogChunk

CONNECT_S_MAX = 5.0


class OwnOutputs:
    """Answers `aliquot.service.watching.Outputs` as long as there is an executor behind it."""

    def __init__(self) -> None:
        self.source: Executor | None = None

    def follow_log(self, agent_id: AgentId, kernel_id: KernelId, *, offset: int) -> AsyncIterator[LogChunk]:
        """See `Executor.follow_log`.

        Raises:
            Unavailable: this server does not lead.
        """
        if self.source is None:
            raise Unavailable("this server does not lead; ask again in a moment")
        return self.source.follow_log(agent_id, kernel_id, offset=offset)


class LeaderOutputs:
    """Answers `aliquot.service.watching.Outputs` at every server."""

    def __init__(self, own: OwnOutputs, *, leader: Callable[[], str | None], token: str) -> None:
        """
        Args:
            leader: where the server is that leads, as far as it is known.
            token: which all servers share.
        """
        self._own = own
        self._leader = leader
        self._token = token

    def follow_log(self, agent_id: AgentId, kernel_id: KernelId, *, offset: int) -> AsyncIterator[LogChunk]:
        """See `Executor.follow_log`. When the lead changes meanwhile it ends as if the agent was lost."""
        if self._own.source is not None:
            return self._own.follow_log(agent_id, kernel_id, offset=offset)
        return self._from_leader(agent_id, kernel_id, offset=offset)

    async def _from_leader(self, agent_id: AgentId, kernel_id: KernelId, *, offset: int) -> AsyncIterator[LogChunk]:
        leader = self._leader()
        if leader is None:
            raise Unavailable("no server leads now; ask again in a moment")
        asked = {"agent_id": agent_id, "kernel_id": kernel_id, "offset": str(offset)}
        # Compressed, the end of what was printed would wait for more.
        headers = {"Authorization": f"Bearer {self._token}", "Accept-Encoding": "identity"}
        timeout = httpx.Timeout(CONNECT_S_MAX, read=None)
        try:
            async with (
                httpx.AsyncClient(base_url=leader, timeout=timeout, trust_env=False) as client,
                client.stream("GET", OUTPUTS_PATH, params=asked, headers=headers) as answer,
            ):
                await _check(answer, kernel_id)
                async for chunk in unframed(answer.aiter_bytes()):
                    yield chunk
                    if chunk.at_end:
                        return
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Unavailable(f"{leader}, which leads: {error or type(error).__name__}") from None
        raise Unavailable(f"{leader}, which leads, stopped in the middle of it")


async def _check(answer: httpx.Response, kernel_id: KernelId) -> None:
    if answer.status_code == httpx.codes.OK:
        return
    words = (await answer.aread()).decode(errors="replace")[:500]
    if answer.status_code == httpx.codes.NOT_FOUND:
        raise NotFound(words, kind="kernel", id=kernel_id)
    raise Unavailable(f"{answer.url.netloc.decode()}, which leads: {words}")
