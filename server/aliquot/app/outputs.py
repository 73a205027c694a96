"""Job output across servers: read from local agents when this server leads, otherwise fetched from the leader."""

from collections.abc import AsyncIterator, Callable

import httpx

from aliquot.api.job_output import OUTPUTS_PATH, unframed
from aliquot.app.running import OwnOutputs
from aliquot_schema.cluster.launching import LogChunk
from aliquot_schema.errors import NotFound, Unavailable
from aliquot_schema.ids import AgentId, KernelId

CONNECT_S_MAX = 5.0


class LeaderOutputs:
    """`aliquot.service.subscriptions.watching.Outputs` for leaders and followers."""

    def __init__(self, own: OwnOutputs, *, leader: Callable[[], str | None], token: str) -> None:
        """
        Args:
            leader: the URL of the leader; None when unknown.
            token: the token shared by all servers.
        """
        self._own = own
        self._leader = leader
        self._token = token

    def follow_log(self, agent_id: AgentId, kernel_id: KernelId, *, offset: int) -> AsyncIterator[LogChunk]:
        """See `Executor.follow_log`. A change of leader ends it as the loss of the agent does."""
        if self._own.is_there:
            return self._own.follow_log(agent_id, kernel_id, offset=offset)
        return self._from_leader(agent_id, kernel_id, offset=offset)

    async def _from_leader(self, agent_id: AgentId, kernel_id: KernelId, *, offset: int) -> AsyncIterator[LogChunk]:
        leader = self._leader()
        if leader is None:
            raise Unavailable("no server is leading right now; try again in a few seconds")
        asked = {"agent_id": agent_id, "kernel_id": kernel_id, "offset": str(offset)}
        # Compression would hold back the last lines until more output follows.
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
            raise Unavailable(f"the leader {leader} cannot be reached: {str(error) or type(error).__name__}") from None
        raise Unavailable(f"the leader {leader} stopped in the middle of the output")


async def _check(answer: httpx.Response, kernel_id: KernelId) -> None:
    if answer.status_code == httpx.codes.OK:
        return
    words = (await answer.aread()).decode(errors="replace")[:500]
    if answer.status_code == httpx.codes.NOT_FOUND:
        raise NotFound(words, kind="kernel", id=kernel_id)
    raise Unavailable(f"the leader {answer.url.netloc.decode()} answered: {words}")
