"""Working directories for tests: a small tree, its blocks, the service over a folder, and agents that get them."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

from agent_harness import order
from aliquot.clock import SystemClock
from aliquot.execution.agent.workspaces.cache import WorkspaceCache, WorkspaceStream
from aliquot.execution.result_store import FolderStorage
from aliquot.execution.workspace_store import StoredWorkspaces
from aliquot.service.accounts.workspaces import WorkspaceRules, Workspaces
from aliquot.service.ports import Executor
from aliquot.service.state.journal import Journal
from aliquot.service.state.state import State
from aliquot_schema.async_tasks import Worker
from aliquot_schema.cluster.launching import LaunchOrder
from aliquot_schema.cluster.streams import StreamTarget
from aliquot_schema.cluster.workspaces import Workspace, WorkspaceFile, WorkspaceUse
from aliquot_schema.errors import Unavailable
from aliquot_schema.ids import AgentId, KernelId, UserId
from aliquot_schema.requests import Caller, Role
from aliquot_schema.states import KernelState
from core_records import kernel
from service_bench import agent
from service_reaping import A
from service_stage import Stage, stage

ANN = Caller(user=UserId("ann"), request_id="req_test", role=Role.USER)
RULES = WorkspaceRules(bytes_max=1000, user_bytes_max=1500, kept_s=100.0)


def named(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def tree(**files: str) -> Workspace:
    """Regular files; `a__b` is the path `a/b`."""
    texts = {name.replace("__", "/"): text.encode() for name, text in files.items()}
    made = [WorkspaceFile(path=path, size=len(data), blocks=(named(data),)) for path, data in sorted(texts.items())]
    return Workspace(files=tuple(made))


def sized(*blocks: bytes) -> bytes:
    """Blocks as they are sent: each after its length."""
    return b"".join(len(data).to_bytes(8, "big") + data for data in blocks)


def workspaces_of(state: State, journal: Journal, folder: Path, rules: WorkspaceRules = RULES) -> Workspaces:
    store = StoredWorkspaces(FolderStorage(folder))
    return Workspaces(state=state, journal=journal, clock=SystemClock(), store=store, rules=rules)


@asynccontextmanager
async def uploaded(folder: Path, **files: str) -> AsyncIterator[tuple[Stage, Workspaces, LaunchOrder]]:
    """A working directory on the server, and an order with it."""
    async with stage([agent("a", devices=1)]) as on:
        uploads, listing = workspaces_of(on.state, on.journal, folder), tree(**files)
        await uploads.upload(ANN, listing)
        for data in files.values():
            await uploads.keep(ANN, data.encode())
        await uploads.upload(ANN, listing)
        yield on, uploads, await starting(on, WorkspaceUse(owner=ANN.user, id=listing.id))


async def starting(on: Stage, use: WorkspaceUse | None, *, rank: int = 0, agent_id: str = "elsewhere") -> LaunchOrder:
    """The order of a kernel that starts, on an agent that the reaper does not reach."""
    begun = kernel(KernelState.STARTING, rank=rank, agent_id=AgentId(agent_id))
    await on.journal.transact(lambda draft: draft.put(begun, "starting"), actor="test")
    return order("true", kernel=begun.id, workspace=use)


class Agents:
    """The executor's workspace transfer: one agent with a cache."""

    def __init__(self, folder: Path, *, agent_id: AgentId = A) -> None:
        self.agent_id = agent_id
        self.cache, self.worker, self.sent = WorkspaceCache(folder, packages=folder / "packages"), Worker("test"), 0
        self.streams: list[WorkspaceStream] = []
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()

    @property
    def executor(self) -> Executor:
        return cast(Executor, self)

    async def open_stream(self, agent_id: AgentId, kernel_id: KernelId, target: StreamTarget) -> WorkspaceStream:
        if agent_id != self.agent_id:
            raise Unavailable("no such agent")
        assert target.workspace is not None
        stream = WorkspaceStream(self.cache, target.workspace, worker=self.worker)
        self.streams.append(stream)
        write = stream.write

        async def counted(data: bytes) -> None:
            await self.may_go_on.wait()
            self.sent += len(data)
            for first in range(0, len(data), 7):
                await write(data[first : first + 7])

        stream.write = counted  # type: ignore[method-assign]
        return stream
