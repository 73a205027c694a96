"""Transfers of uploaded working directories to agents, and the reasons that are shown when they fail."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import cast
from unittest import mock

import msgspec
import pytest
from msgspec.structs import replace

from agent_harness import wait_until
from aliquot.execution.agent.workspaces.cache import WorkspaceCache, WorkspaceStream
from aliquot.service.accounts import workspace_transfers
from aliquot.service.ports import Executor
from aliquot.service.scheduling.dispatch import Dispatch
from aliquot.service.state.transfers import TRIES_MAX, Transfer
from aliquot.service.views.sessions import kernel_view
from aliquot_schema.async_tasks import Worker
from aliquot_schema.cluster.launching import LaunchOrder
from aliquot_schema.cluster.workspaces import WorkspaceFault, WorkspaceUse, WorkspaceWanted
from aliquot_schema.errors import Unavailable
from aliquot_schema.identity.secrets import SecretGrant, SecretUse
from aliquot_schema.ids import AgentId, KernelId
from aliquot_schema.states import KernelState, SessionState
from core_records import session
from service_reaping import A, reaper_of
from service_stage import CALLER
from workspace_parts import ANN, Agents, named, starting, tree, uploaded

pytestmark = pytest.mark.anyio


async def _noted(launched: list[LaunchOrder], orders: Sequence[LaunchOrder]) -> None:
    launched.extend(orders)


def told(fault: WorkspaceFault | None) -> str:
    """The message of a fault of the server."""
    assert fault is not None
    assert fault.is_everywhere
    return fault.message


async def test_an_agent_gets_only_the_blocks_it_lacks(tmp_path: Path) -> None:
    async with uploaded(tmp_path / "server", a="one", b__c="two") as (_, uploads, asked):
        one, files = Agents(tmp_path / "agent"), tree(a="one", b__c="two")
        assert not one.cache.has(files.id)
        assert await uploads.transfers.bring(one.executor, A, asked) is None
        first = one.sent
        assert one.cache.read(files.id) == files
        assert await uploads.transfers.bring(one.executor, A, asked) is None
        assert one.sent - first == 8 + len(files.encoded())
        with pytest.raises(Unavailable):
            await uploads.transfers.bring(one.executor, AgentId("b"), asked)
        await one.worker.close()


async def test_kernels_of_an_agent_with_the_same_workspace_share_one_transfer(tmp_path: Path) -> None:
    async with uploaded(tmp_path / "server", a="x" * 900) as (on, uploads, asked):
        one, size = Agents(tmp_path / "agent"), len(tree(a="x" * 900).encoded())
        orders = [asked, *[await starting(on, asked.workspace, rank=rank) for rank in range(1, 6)]]
        bring = [uploads.transfers.bring(one.executor, A, each) for each in orders]
        assert await asyncio.gather(*bring) == [None] * 6
        assert one.sent == 6 * (8 + size) + 8 + 900
        await one.worker.close()


async def test_a_slow_agent_delays_no_transfer_to_another_one(tmp_path: Path) -> None:
    async with uploaded(tmp_path / "server", a="one") as (on, uploads, asked):
        quick_agent = AgentId("quick")
        slow, quick = Agents(tmp_path / "slow"), Agents(tmp_path / "quick", agent_id=quick_agent)
        slow.may_go_on.clear()
        waiting = []
        for rank in range(1, 21):
            other = tree(a="one", b=str(rank))
            await uploads.keep(ANN, str(rank).encode())
            await uploads.upload(ANN, other)
            each = await starting(on, WorkspaceUse(owner=ANN.user, id=other.id), rank=rank)
            waiting.append(asyncio.create_task(uploads.transfers.bring(slow.executor, A, each)))
        await wait_until(lambda: len(slow.streams) > 0)
        async with asyncio.timeout(60):
            assert await uploads.transfers.bring(quick.executor, quick_agent, asked) is None
        assert not any(task.done() for task in waiting)
        slow.may_go_on.set()
        assert await asyncio.gather(*waiting) == [None] * 20
        await slow.worker.close()
        await quick.worker.close()


@pytest.mark.parametrize("is_canceled", [False, True])
async def test_ranks_of_a_gang_start_together_once_all_agents_have_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_canceled: bool
) -> None:
    monkeypatch.setattr(workspace_transfers, "CHECK_S", 0.01)
    async with uploaded(tmp_path / "server", a="one") as (on, uploads, asked):
        gang, quick_agent = session(SessionState.ALLOCATING), AgentId("quick")
        asked, second = [await starting(on, asked.workspace, rank=rank, agent_id=A) for rank in (0, 1)]
        await on.journal.transact(lambda draft: draft.put(gang, "allocating"), actor="test")
        slow, quick = Agents(tmp_path / "slow"), Agents(tmp_path / "quick", agent_id=quick_agent)
        slow.may_go_on.clear()
        first = asyncio.create_task(uploads.transfers.bring(slow.executor, A, asked))
        other = asyncio.create_task(uploads.transfers.bring(quick.executor, quick_agent, second))
        await wait_until(lambda: on.state.transfers[second.kernel_id].is_complete)
        said = kernel_view(on.state, on.state.kernels[second.kernel_id]).message
        assert said == "has its files; waiting until the other ranks have theirs"
        assert not other.done()
        if is_canceled:
            stopping = replace(on.state.kernels[second.kernel_id], state=KernelState.STOPPING)
            await on.journal.transact(lambda draft: draft.put(stopping, "stopping"), actor="test")
            with pytest.raises(Unavailable, match="not to start any more"):
                await other
        slow.may_go_on.set()
        assert await first is None
        assert is_canceled or await other is None
        assert on.state.transfers == {}
        await slow.worker.close()
        await quick.worker.close()


async def test_the_order_says_what_has_expired_or_is_damaged_on_the_server(tmp_path: Path) -> None:
    async with uploaded(tmp_path / "server", a="one") as (_, uploads, asked):
        one = Agents(tmp_path / "agent")
        assert asked.workspace is not None
        gone = replace(asked, workspace=replace(asked.workspace, id="0" * 40))
        fault = await uploads.transfers.bring(one.executor, A, gone)
        assert told(fault) == f"workspace {'0' * 40} has expired on the server; submit it again with --sync"
        (stored,) = (tmp_path / "server").glob("*/blocks/*")
        stored.write_bytes(b"eno")
        fault = await uploads.transfers.bring(one.executor, A, asked)
        assert told(fault) == "a part of it is missing or damaged on the server; submit it again with --sync"
        await one.worker.close()


async def test_a_transfer_that_an_agent_does_not_take_may_succeed_on_another_one(tmp_path: Path) -> None:
    async with uploaded(tmp_path / "server", a="one") as (on, uploads, asked):
        one, other = Agents(tmp_path / "agent"), AgentId("b")
        for _ in range(TRIES_MAX - 1):
            with pytest.raises(Unavailable, match="no such agent"):
                await uploads.transfers.bring(one.executor, other, asked)
        said = on.state.transfers[asked.kernel_id].text
        assert said == "receiving files failed, 4 of 5 tries: no such agent"
        fault = await uploads.transfers.bring(one.executor, other, asked)
        assert fault == WorkspaceFault(message=f"no such agent (tried {TRIES_MAX} times)", is_everywhere=False)
        await one.worker.close()


@pytest.mark.parametrize("method", ["write", "close"])
async def test_an_agent_that_hangs_holds_up_no_later_transfer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    limits = {"write": [0.01, 60, 60], "close": [60, 60, 0.01]}[method]  # at first, and from each answer on
    monkeypatch.setattr(workspace_transfers, "AGENT_S_MAX", limits[0])

    async def answer() -> bytes:
        monkeypatch.setattr(workspace_transfers, "AGENT_S_MAX", limits[stream.read.await_count])
        return msgspec.json.encode(WorkspaceWanted()) + b"\n"

    async with uploaded(tmp_path / "server", a="one") as (_, uploads, asked):
        stream = mock.Mock(read=mock.AsyncMock(side_effect=answer), write=mock.AsyncMock(), close=mock.AsyncMock())
        setattr(stream, method, lambda *_: asyncio.Event().wait())
        executor = cast(Executor, mock.Mock(open_stream=mock.AsyncMock(return_value=stream)))
        async with asyncio.timeout(60):
            if method == "close":
                assert await uploads.transfers.bring(executor, A, asked) is None
            else:
                with pytest.raises(Unavailable, match="took no data"):
                    await uploads.transfers.bring(executor, A, asked)
        one = Agents(tmp_path / "agent")
        monkeypatch.setattr(workspace_transfers, "AGENT_S_MAX", 60)
        async with asyncio.timeout(60):
            assert await uploads.transfers.bring(one.executor, A, asked) is None
        await one.worker.close()


async def test_the_workspace_of_a_kernel_that_is_stopped_is_not_sent_further(tmp_path: Path) -> None:
    async with uploaded(tmp_path / "server", a="one", b="two") as (on, uploads, asked):
        one = Agents(tmp_path / "agent")
        one.may_go_on.clear()
        bringing = asyncio.create_task(uploads.transfers.bring(one.executor, A, asked))
        await wait_until(lambda: len(one.streams) == 1)
        await on.journal.transact(
            lambda draft: draft.put(replace(on.state.kernels[asked.kernel_id], state=KernelState.STOPPING), "stopping"),
            actor="test",
        )
        one.may_go_on.set()
        with pytest.raises(Unavailable, match="not to start any more"):
            await bringing
        assert one.sent == 8 + len(tree(a="one", b="two").encoded()), "and no block"
        with pytest.raises(Unavailable, match="not to start any more"):
            await uploads.transfers.bring(one.executor, A, asked)
        assert len(one.streams) == 1
        assert on.state.transfers == {}
        await one.worker.close()


async def test_a_kernel_that_is_stopped_once_its_workspace_is_there_is_not_launched(tmp_path: Path) -> None:
    async with uploaded(tmp_path / "server", a="one") as (on, uploads, asked):
        one, launched = Agents(tmp_path / "agent"), list[LaunchOrder]()
        one.launch = lambda _, orders: _noted(launched, orders)  # type: ignore[attr-defined]

        async def slowly(orders: Sequence[LaunchOrder]) -> Sequence[LaunchOrder]:
            stopped = replace(on.state.kernels[asked.kernel_id], state=KernelState.STOPPING)
            await on.journal.transact(lambda draft: draft.put(stopped, "stopping"), actor="test")
            return orders

        transfers = uploads.transfers
        dispatch = Dispatch(
            one.executor, epoch=1, grace_ms=100, filled=slowly, bring=transfers.bring, is_awaited=transfers.is_awaited
        )
        secret = SecretGrant(owner=ANN.user, use=SecretUse(name="token"))
        dispatch.launch({A: [replace(asked, secrets=(secret,))]})
        await wait_until(lambda: not dispatch.is_bringing(asked.kernel_id))
        assert (on.state.kernels[asked.kernel_id].state, launched) == (KernelState.STOPPING, [])
        unknown = replace(asked, kernel_id=KernelId("ses_x.1.0"))
        with pytest.raises(Unavailable, match="not to start any more"):
            await uploads.transfers.bring(one.executor, A, unknown)
        assert on.state.transfers == {}
        await one.worker.close()


async def test_an_agent_that_cannot_store_a_workspace_gets_the_order_and_knows_why(tmp_path: Path) -> None:
    async with uploaded(tmp_path / "server", a="one", b="two") as (_, uploads, asked):
        one, files = Agents(tmp_path / "agent"), tree(a="one", b="two")
        one.cache.block(named(b"two")).parent.mkdir(parents=True)
        one.cache.block(named(b"two")).mkdir()
        assert await uploads.transfers.bring(one.executor, A, asked) is None
        assert "Is a directory" in one.cache.failures[files.id]
        assert not one.cache.block(named(b"one")).exists()
        one.cache.block(named(b"two")).rmdir()
        await uploads.transfers.bring(one.executor, A, asked)
        assert (one.cache.read(files.id), one.cache.failures) == (files, {})
        await one.worker.close()


async def test_an_agent_notes_contents_that_do_not_match_their_hash(tmp_path: Path) -> None:
    """The stream carries no errors: the server sends the order then, which is refused with the reason."""
    files, worker = tree(a="one"), Worker("test")
    for told, then in ((files.encoded(), b"two"), (tree(a="two").encoded(), b""), (b"x" * 10, b"")):
        folder = tmp_path / named(told + then)[:8]
        cache = WorkspaceCache(folder, packages=folder / "packages")
        stream = WorkspaceStream(cache, WorkspaceUse(owner=ANN.user, id=files.id), worker=worker)
        await stream.write(len(told).to_bytes(8, "big") + told + len(then).to_bytes(8, "big") + then)
        answers = [await stream.read(), await stream.read(), await stream.read()]
        wanted = [msgspec.json.decode(answer)["blocks"] for answer in answers[:2]]
        assert wanted == [[named(b"one")] if then else [], []]
        assert answers[2] == b""
        await stream.close()
        assert not cache.has(files.id)
        assert ("its hash" if then else "workspace: ") in cache.failures[files.id]
    async with asyncio.timeout(60):
        await worker.close()


async def test_a_workspace_that_arrives_with_a_wrong_hash_is_not_sent_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with uploaded(tmp_path / "server", a="one") as (_, uploads, asked):
        one = Agents(tmp_path / "agent")
        monkeypatch.setattr(uploads.transfers, "_block", lambda owner, block: b"eno")
        assert await uploads.transfers.bring(one.executor, A, asked) is None
        assert "its hash" in one.cache.failures[tree(a="one").id]
        await one.worker.close()


async def test_an_order_repeated_while_its_workspace_is_brought_is_sent_once_it_is_there(tmp_path: Path) -> None:
    async with uploaded(tmp_path / "server", a="one") as (_, uploads, asked):
        one, launched = Agents(tmp_path / "agent"), list[LaunchOrder]()
        one.launch = lambda _, orders: _noted(launched, orders)  # type: ignore[attr-defined]
        one.may_go_on.clear()
        dispatch = Dispatch(one.executor, epoch=1, grace_ms=100, bring=uploads.transfers.bring)
        for _ in range(3):
            dispatch.launch({A: [asked]})
        await wait_until(lambda: len(one.streams) == 1)
        assert dispatch.is_bringing(asked.kernel_id)
        assert launched == []
        one.may_go_on.set()
        await wait_until(lambda: not dispatch.is_bringing(asked.kernel_id))
        assert [found.kernel_id for found in launched] == [asked.kernel_id] * 2
        assert len(one.streams) == 2, "the second one found all blocks there"
        await dispatch.close()
        await one.worker.close()


async def test_the_end_of_a_term_waits_for_no_transfer(tmp_path: Path) -> None:
    async with uploaded(tmp_path / "server", a="one") as (_, uploads, asked):
        one = Agents(tmp_path / "agent")
        one.may_go_on.clear()
        dispatch = Dispatch(one.executor, epoch=1, grace_ms=100, bring=uploads.transfers.bring)
        dispatch.launch({A: [asked]})
        await wait_until(lambda: len(one.streams) == 1)
        async with asyncio.timeout(60):
            await dispatch.close()
        await one.worker.close()


async def test_a_kernel_whose_workspace_is_brought_is_no_finding_of_the_reaper(tmp_path: Path) -> None:
    async with uploaded(tmp_path / "server", a="one") as (on, uploads, asked):
        one = Agents(tmp_path / "agent")
        one.may_go_on.clear()
        on.dispatch._bring = lambda _, *rest: uploads.transfers.bring(one.executor, *rest)
        assert asked.workspace is not None
        session_id = await on.submit(workspace=asked.workspace.id)
        await on.allocator.run_once()
        await wait_until(lambda: len(one.streams) == 1)
        view = await on.queries.session(CALLER, session_id)
        assert view is not None
        assert view.kernels[0].message == "waiting to receive files"
        reaper = reaper_of(on)
        assert [await reaper.run_once() for _ in range(3)] == [0, 0, 0]
        assert (on.state.findings, on.session(session_id).state) == ({}, SessionState.ALLOCATING)
        one.may_go_on.set()
        await wait_until(lambda: on.executor.agents[A].starts != [])
        assert len(one.streams) == 1
        await one.worker.close()


async def test_a_session_canceled_while_its_workspace_is_brought_is_stopped_again_if_its_stop_is_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with uploaded(tmp_path / "server", a="one") as (on, uploads, asked):
        one = Agents(tmp_path / "agent")
        one.may_go_on.clear()
        on.dispatch._bring = lambda _, *rest: uploads.transfers.bring(one.executor, *rest)
        assert asked.workspace is not None
        session_id = await on.submit(workspace=asked.workspace.id)
        await on.allocator.run_once()
        await wait_until(lambda: len(one.streams) == 1)
        on.executor.silent.add(A)
        await on.cancel(session_id)
        await wait_until(lambda: "did not receive the stop" in caplog.text)
        on.executor.silent.remove(A)
        reaper, kernel_id = reaper_of(on), KernelId(f"{session_id}.1.0")
        for _ in range(2):
            await reaper.run_once()
        assert on.dispatch.is_bringing(kernel_id)
        await wait_until(lambda: on.executor.agents[A].stopped == [kernel_id])
        await one.worker.close()


def test_progress_is_shown_in_readable_units() -> None:
    transfer = Transfer(bytes_total=300 << 20, bytes_done=120 << 20, lacking=75)
    assert transfer.text == "receiving files: 120 MiB of 300 MiB"


def test_tries_count_from_the_last_block_that_arrived() -> None:
    transfer = Transfer()
    for lacking, tries in ((3, 1), (3, 2), (2, 1), (2, 2)):
        transfer.begin(lacking=lacking, bytes_total=10)
        transfer.fail("broken")
        assert (transfer.tries, transfer.text) == (tries, f"receiving files failed, {tries} of 5 tries: broken")
