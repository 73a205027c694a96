"""Transfers of workspaces to agents, before the orders that need them: each block once, and with bounded tries.

Kernels of one agent with the same workspace wait for one transfer. A slow agent delays no other one, except for the
other ranks of its sessions: these start together.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final, TypeVar
from weakref import WeakValueDictionary

import msgspec

from aliquot.service.ports import ByteStream, Executor
from aliquot.service.state.state import State
from aliquot.service.state.transfers import TRIES_MAX, Transfer
from aliquot_schema.cluster.launching import LaunchOrder
from aliquot_schema.cluster.streams import StreamTarget
from aliquot_schema.cluster.workspaces import (
    LISTING_BYTES_MAX,
    Workspace,
    WorkspaceFault,
    WorkspaceUse,
    WorkspaceWanted,
)
from aliquot_schema.errors import AliquotError, NotFound, Unavailable
from aliquot_schema.ids import AgentId, KernelId, UserId
from aliquot_schema.states import KernelState

STORE_S_MAX: Final = 60.0
"""Time for the store to answer: a folder on a file server that is away may never do."""
UNREADABLE_S_MAX: Final = 120.0
"""A session whose files cannot be read for so long gives its devices back."""
AGENT_S_MAX: Final = 300.0
"""Time for an agent to take the next piece."""
PIECE_BYTES: Final = 256 * 1024
AT_ONCE_MAX: Final = 16
"""Transfers at the same time: each holds a block in memory."""
AT_ONCE_PER_AGENT_MAX: Final = 4
REASON_CHARS_MAX: Final = 300
CHECK_S: Final = 1.0
"""How often a kernel that waits for other ranks checks that it is still to start."""
T = TypeVar("T")
log: Final = logging.getLogger("aliquot.workspaces")


class _StoreFailed(Exception):
    """The store of workspaces failed, which is no fault of an agent, and passes."""


class WorkspaceTransfers:
    """Brings workspaces to agents.

    Args:
        read: a stored workspace; None = it has expired. Blocks on I/O, and raises OSError; likewise the next.
        block: a content.
        check_there: checks that the store had workspaces of a user before.
        give_up: ends the start of a session by one of its kernels, for a reason; it waits without its devices.
        monotonic: seconds from an arbitrary start.
    """

    def __init__(
        self,
        state: State,
        *,
        read: Callable[[UserId, str], Workspace | None],
        block: Callable[[UserId, str], bytes],
        check_there: Callable[[UserId], None],
        give_up: Callable[[KernelId, str], Awaitable[None]],
        monotonic: Callable[[], float],
    ) -> None:
        self._state = state
        self._give_up = give_up
        self._monotonic = monotonic
        self._readers = ThreadPoolExecutor(AT_ONCE_MAX, thread_name_prefix="workspaces")
        """Their own: reads that hang take no thread from others."""
        self._check_there = check_there
        self._read = read
        self._block = block
        self._at_once = asyncio.Semaphore(AT_ONCE_MAX)
        self._of_agent: WeakValueDictionary[AgentId, asyncio.Semaphore] = WeakValueDictionary()
        self._completed = asyncio.Event()
        """Set at the next end of a transfer, and then replaced."""
        self._of_workspace: WeakValueDictionary[tuple[AgentId, str], asyncio.Lock] = WeakValueDictionary()

    def is_awaited(self, kernel_id: KernelId) -> bool:
        """Whether a kernel is still to start."""
        kernel = self._state.kernels.get(kernel_id)
        return kernel is not None and kernel.state not in (KernelState.STOPPING, KernelState.EXITED)

    async def bring(self, executor: Executor, agent_id: AgentId, order: LaunchOrder) -> WorkspaceFault | None:
        """Bring the workspace of an order to its agent, and wait for those of the other ranks. Returns why it will not
        come; the agent refuses the order then, as it does if it could not store the workspace itself.

        Raises:
            Unavailable: the agent or the store does not answer, and the order is repeated later; or the kernel is not
                to start any more.
        """
        use = order.workspace
        assert use is not None
        transfers = self._state.transfers
        for ended in [kernel_id for kernel_id in transfers if not self.is_awaited(kernel_id)]:
            del transfers[ended]
        transfer = transfers.setdefault(order.kernel_id, Transfer())
        workspace = self._of_workspace.setdefault((agent_id, use.id), asyncio.Lock())
        agent = self._of_agent.setdefault(agent_id, asyncio.Semaphore(AT_ONCE_PER_AGENT_MAX))
        async with workspace, agent, self._at_once:
            self._check_awaited(order.kernel_id)
            fault = None
            transfer.retry()
            try:
                await self._bring(executor, agent_id, order.kernel_id, use, transfer)
            except NotFound as error:
                text = f"{error.message} on the server; submit it again with --sync"
                fault = WorkspaceFault(message=text, is_everywhere=True)
            except FileNotFoundError as error:
                log.warning("workspace %s of %s is not complete: %s", use.id, use.owner, error)
                text = "a part of it is missing or damaged on the server; submit it again with --sync"
                fault = WorkspaceFault(message=text, is_everywhere=True)
            except _StoreFailed as error:
                self._check_awaited(order.kernel_id)
                reason = str(error)[:REASON_CHARS_MAX]
                if transfer.wait(reason, now=self._monotonic()) >= UNREADABLE_S_MAX:
                    await self._give_up(order.kernel_id, reason)
                    transfers.pop(order.kernel_id, None)
                raise Unavailable(f"the files of {order.kernel_id} cannot be read: {error}") from error
            except (AliquotError, OSError) as error:
                fault = self._given_up(agent_id, order, transfer, error)
        if fault is None:
            transfer.complete()
            self._completed.set()
            self._completed = asyncio.Event()
            await self._wait_for_gang(order.kernel_id)
        transfers.pop(order.kernel_id, None)
        return fault

    async def _wait_for_gang(self, kernel_id: KernelId) -> None:
        """Wait for the files of the other ranks: ranks that start minutes apart give up on each other. Raises
        Unavailable: it is not to start any more."""
        kernel = self._state.kernels.get(kernel_id)
        session = None if kernel is None else self._state.sessions.get(kernel.session_id)
        gang = [] if session is None else [kernel.id for kernel in self._state.kernels_in(session)]
        while any(
            (other := self._state.transfers.get(id)) is not None and not other.is_complete and self.is_awaited(id)
            for id in gang
        ):
            with suppress(TimeoutError):
                async with asyncio.timeout(CHECK_S):
                    await self._completed.wait()
            self._check_awaited(kernel_id)

    def _given_up(self, agent_id: AgentId, order: LaunchOrder, transfer: Transfer, error: Exception) -> WorkspaceFault:
        """Why a kernel is not tried again.

        Raises:
            Unavailable: it is.
        """
        self._check_awaited(order.kernel_id)
        cause = str(error) or f"the agent took no data for {AGENT_S_MAX:g} s"
        transfer.fail(cause)
        text = f"the files of {order.kernel_id} did not reach agent {agent_id}: {cause}"
        if transfer.tries < TRIES_MAX:
            raise Unavailable(text) from None
        log.warning("%s; given up after %d tries", text, transfer.tries)
        text = f"{cause} (tried {transfer.tries} times)"[:REASON_CHARS_MAX]
        return WorkspaceFault(message=text, is_everywhere=False)

    async def _bring(
        self, executor: Executor, agent_id: AgentId, kernel_id: KernelId, use: WorkspaceUse, transfer: Transfer
    ) -> None:
        workspace = await self._from_store(self._read, use.owner, use.id)
        if workspace is None:
            raise NotFound(f"workspace {use.id} has expired", kind="workspace", id=use.id)
        stream = await executor.open_stream(agent_id, kernel_id, StreamTarget(workspace=use))
        try:
            listing = workspace.encoded()
            listing = _head(listing) + listing
            for first in range(0, len(listing), PIECE_BYTES):
                self._check_awaited(kernel_id)
                await _write(stream, listing[first : first + PIECE_BYTES])
            async with asyncio.timeout(AGENT_S_MAX):
                wanted = await _answer(stream)
            stored = asyncio.create_task(_answer(stream))
            try:
                await self._send(stream, kernel_id, use, workspace, wanted=wanted, stored=stored, transfer=transfer)
                async with asyncio.timeout(AGENT_S_MAX):
                    await stored
            finally:
                stored.cancel()
                await asyncio.gather(stored, return_exceptions=True)
        finally:
            with suppress(TimeoutError):
                async with asyncio.timeout(AGENT_S_MAX):
                    await stream.close()

    async def _send(
        self,
        stream: ByteStream,
        kernel_id: KernelId,
        use: WorkspaceUse,
        workspace: Workspace,
        *,
        wanted: WorkspaceWanted,
        stored: asyncio.Task[WorkspaceWanted],
        transfer: Transfer,
    ) -> None:
        known = dict(workspace.blocks)
        if not known.keys() >= set(wanted.blocks):
            raise Unavailable("the agent asks for a block that is not of the workspace")
        transfer.begin(lacking=len(wanted.blocks), bytes_total=sum(known[block] for block in wanted.blocks))
        for block in wanted.blocks:
            data = await self._from_store(self._block, use.owner, block)
            for first in range(0, len(data), PIECE_BYTES):
                self._check_awaited(kernel_id)
                if stored.done():  # it cannot store them, and says why when it has the order; or the stream has ended
                    return
                piece = data[first : first + PIECE_BYTES]
                await _write(stream, piece if first else _head(data) + piece)
                transfer.took(len(piece))

    def _check_awaited(self, kernel_id: KernelId) -> None:
        if not self.is_awaited(kernel_id):
            self._state.transfers.pop(kernel_id, None)
            raise Unavailable(f"{kernel_id} is not to start any more, and its workspace is not sent")

    async def _from_store(self, read: Callable[[UserId, str], T], owner: UserId, name: str) -> T:
        """What the store has.

        Raises:
            FileNotFoundError: it is missing or damaged.
            _StoreFailed: the store does not answer, or is not mounted. The libraries for S3 raise errors of their own.
        """

        def looked_up() -> T:
            try:
                found = read(owner, name)
            except FileNotFoundError:
                self._check_there(owner)
                raise
            if found is None:
                self._check_there(owner)
            return found

        try:
            async with asyncio.timeout(STORE_S_MAX):
                return await asyncio.get_running_loop().run_in_executor(self._readers, looked_up)
        except FileNotFoundError:
            raise
        except TimeoutError:
            raise _StoreFailed(f"it has not answered for {STORE_S_MAX:g} seconds") from None
        except Exception as error:
            raise _StoreFailed(str(error) or type(error).__name__) from error


async def _write(stream: ByteStream, data: bytes) -> None:
    async with asyncio.timeout(AGENT_S_MAX):
        await stream.write(data)


def _head(data: bytes) -> bytes:
    return len(data).to_bytes(8, "big")


async def _answer(stream: ByteStream) -> WorkspaceWanted:
    line = bytearray()
    while not line.endswith(b"\n"):
        piece = await stream.read()
        line += piece
        if not piece or len(line) > LISTING_BYTES_MAX:
            raise Unavailable("the agent's answer is not complete")
    try:
        return msgspec.json.decode(bytes(line), type=WorkspaceWanted)
    except msgspec.MsgspecError as error:
        raise Unavailable(f"the agent's answer is not valid: {error}") from None
