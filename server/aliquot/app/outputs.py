"""Job output and streams across servers: from local agents when this server leads, otherwise through the leader."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Final, TypeVar

import httpx
import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from aliquot.api.job_output import OUTPUTS_PATH, unframed
from aliquot.api.session_streams import END, PAUSE_S_MAX, SERVERS_PATH, ServerOpening
from aliquot.app.running import OwnOutputs
from aliquot.execution.remote.codec import from_failure
from aliquot.service.ports import ByteStream
from aliquot_schema.cluster.agent_protocol import Failure
from aliquot_schema.cluster.launching import LogChunk
from aliquot_schema.cluster.streams import StreamTarget
from aliquot_schema.errors import NotFound, Unavailable
from aliquot_schema.ids import AgentId, KernelId

CONNECT_S_MAX: Final = 5.0
CLOSE_S_MAX: Final = 2.0
LEADER_CHECK_S: Final = 1.0
"""How often a wait for the leader checks that it still leads: a frozen one neither answers nor closes connections."""

Found = TypeVar("Found")


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

    async def open_stream(self, agent_id: AgentId, kernel_id: KernelId, target: StreamTarget) -> ByteStream:
        """See `Executor.open_stream`. A change of leader ends it as the loss of the agent does."""
        if self._own.is_there:
            return await self._own.open_stream(agent_id, kernel_id, target)
        leader = self._present_leader()
        opening = leader_stream(
            leader, self._token, agent_id, kernel_id, target, leads=lambda: not self._is_replaced(leader)
        )
        return await self._while_it_leads(leader, opening)

    async def _from_leader(self, agent_id: AgentId, kernel_id: KernelId, *, offset: int) -> AsyncIterator[LogChunk]:
        leader = self._present_leader()
        asked = {"agent_id": agent_id, "kernel_id": kernel_id, "offset": str(offset)}
        # Compression would hold back the last lines until more output follows.
        headers = {"Authorization": f"Bearer {self._token}", "Accept-Encoding": "identity"}
        timeout = httpx.Timeout(CONNECT_S_MAX, read=None)
        has_tls = not leader.startswith("http:")  # without TLS, no certificates need be loaded
        try:
            async with httpx.AsyncClient(base_url=leader, timeout=timeout, trust_env=False, verify=has_tls) as client:
                request = client.build_request("GET", OUTPUTS_PATH, params=asked, headers=headers)
                async with aclosing(await self._while_it_leads(leader, client.send(request, stream=True))) as answer:
                    await _check(answer, kernel_id)
                    chunks = unframed(answer.aiter_bytes())
                    while (chunk := await self._while_it_leads(leader, anext(chunks, None))) is not None:
                        yield chunk
                        if chunk.at_end:
                            return
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Unavailable(f"the leader {leader} cannot be reached: {str(error) or type(error).__name__}") from None
        raise Unavailable(f"the leader {leader} stopped in the middle of the output")

    def _present_leader(self) -> str:
        leader = self._leader()
        if leader is None:
            raise Unavailable("no server is leading right now; try again in a few seconds")
        return leader

    def _is_replaced(self, leader: str) -> bool:
        return self._leader() not in (leader, None)

    async def _while_it_leads(self, leader: str, waiting: Awaitable[Found]) -> Found:
        """Wait for an answer of the leader. Raises Unavailable: another server leads."""
        task = asyncio.ensure_future(waiting)
        try:
            while not (await asyncio.wait({task}, timeout=LEADER_CHECK_S))[0]:
                if self._is_replaced(leader):
                    raise Unavailable(f"the leader {leader} was replaced by another server")
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})


async def leader_stream(
    leader: str,
    token: str,
    agent_id: AgentId,
    kernel_id: KernelId,
    target: StreamTarget,
    *,
    leads: Callable[[], bool],
) -> ByteStream:
    """A stream through the leader's route for other servers.

    Args:
        leads: whether that server may still lead; the stream ends when it does not.

    Raises:
        AliquotError: of the leader; Unavailable when it cannot be reached.
    """
    try:
        socket = await connect(
            f"ws{leader.removeprefix('http')}{SERVERS_PATH}",
            additional_headers={"authorization": f"Bearer {token}"},
            compression=None,
            proxy=None,
            open_timeout=CONNECT_S_MAX,
            close_timeout=1,
            ping_timeout=PAUSE_S_MAX,  # pongs wait while the session, or the client, does not read
        )
    except (OSError, WebSocketException) as error:
        raise Unavailable(f"the leader {leader} cannot be reached: {str(error) or type(error).__name__}") from None
    stream = LeaderStream(socket, leads)
    try:
        opening = ServerOpening(agent_id=agent_id, kernel_id=kernel_id, target=target)
        await socket.send(msgspec.json.encode(opening).decode())
        answer = msgspec.json.decode(await socket.recv(), type=dict[str, object])
    except (ConnectionClosed, msgspec.MsgspecError):
        await stream.close()
        raise Unavailable(f"the leader {leader} did not open the stream") from None
    except BaseException:
        await stream.close()
        raise
    if "error" in answer:
        await stream.close()
        raise from_failure(Failure(code=str(answer["error"]), message=str(answer.get("message"))))
    return stream


class LeaderStream:
    """A stream over a WebSocket to the leader."""

    def __init__(self, socket: ClientConnection, leads: Callable[[], bool]) -> None:
        self._socket = socket
        self._watch = asyncio.create_task(self._end_with_term(leads))

    async def read(self) -> bytes:
        """The next piece; empty at the end. Raises Unavailable: the leader or the agent was lost."""
        try:
            data = await self._socket.recv()
        except ConnectionClosed:
            raise Unavailable("the leader was lost") from None
        return data if isinstance(data, bytes) else b""

    async def write(self, data: bytes) -> None:
        """Send a piece. Raises Unavailable: the leader was lost."""
        await self._send(data)

    async def end(self) -> None:
        """Nothing more will be sent."""
        await self._send(END)

    async def close(self) -> None:
        """Close both directions. What the leader does not read is dropped."""
        self._watch.cancel()
        try:
            async with asyncio.timeout(CLOSE_S_MAX):
                await self._socket.close()
        except TimeoutError:
            self._socket.transport.abort()

    async def _end_with_term(self, leads: Callable[[], bool]) -> None:
        while True:
            await asyncio.sleep(LEADER_CHECK_S)
            if not leads():
                self._socket.transport.abort()
                return

    async def _send(self, data: bytes | str) -> None:
        try:
            await self._socket.send(data)
        except ConnectionClosed:
            raise Unavailable("the leader was lost") from None


async def _check(answer: httpx.Response, kernel_id: KernelId) -> None:
    if answer.status_code == httpx.codes.OK:
        return
    words = (await answer.aread()).decode(errors="replace")[:500]
    if answer.status_code == httpx.codes.NOT_FOUND:
        raise NotFound(words, kind="kernel", id=kernel_id)
    raise Unavailable(f"the leader {answer.url.netloc.decode()} answered: {words}")
