"""Uploads of working directories: requests, user limits, retention, and transfer to an agent."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest
from msgspec.structs import replace

from agent_harness import order
from aliquot.service.accounts.workspaces import Workspaces
from aliquot.service.ports import Executor
from aliquot_schema.cluster.workspaces import WorkspaceUse
from aliquot_schema.errors import Forbidden, InvalidRequest, LimitExceeded, Unavailable
from aliquot_schema.ids import UserId
from aliquot_schema.requests import Caller, Role
from aliquot_schema.states import KernelState, SessionState
from core_records import kernel, session
from service_bench import agent
from service_reaping import A
from service_stage import Stage, stage
from workspace_parts import RULES, named, tree, workspaces_of

pytestmark = pytest.mark.anyio

ANN = Caller(user=UserId("ann"), request_id="req_test", role=Role.USER)
BOB = replace(ANN, user=UserId("bob"))


@asynccontextmanager
async def office(folder: Path, **rules: Any) -> AsyncIterator[tuple[Stage, Workspaces]]:
    async with stage([agent("a", devices=1)]) as on:
        yield on, workspaces_of(on.state, on.journal, folder, replace(RULES, **rules))


async def test_only_missing_blocks_are_requested_and_each_upload_is_recorded_once(tmp_path: Path) -> None:
    async with office(tmp_path) as (on, uploads):
        first = await uploads.upload(ANN, tree(a="one", b="two"))
        assert set(first.missing) == {named(b"one"), named(b"two")}
        for data in (b"one", b"two"):
            await uploads.keep(ANN, data)
        assert (await uploads.upload(ANN, tree(a="one", b="two"))).missing == ()
        assert (await uploads.upload(ANN, tree(a="one", b="two"))).missing == ()
        assert (await uploads.upload(ANN, tree(a="one", b="three"))).missing == (named(b"three"),)
        assert len((await uploads.upload(BOB, tree(a="one", b="two"))).missing) == 2, "contents are not shared"
        recorded = on.state.actions["workspace/ann"].facts
        assert (recorded["workspace"], recorded["files"]) == (tree(a="one", b="two").id, "2")
        await uploads.check(UserId("ann"), tree(a="one", b="two").id)
        with pytest.raises(InvalidRequest, match="upload it again"):
            await uploads.check(UserId("bob"), tree(a="one", b="two").id)


async def test_an_upload_that_cannot_be_recorded_is_refused_and_recorded_when_it_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with office(tmp_path) as (on, uploads):
        await uploads.upload(ANN, tree(a="one"))
        await uploads.keep(ANN, b"one")
        with monkeypatch.context() as patch:
            patch.setattr(on.journal, "transact", AsyncMock(side_effect=Unavailable("the disk is full")))
            with pytest.raises(Unavailable, match="the disk is full"):
                await uploads.upload(ANN, tree(a="one"))
        with pytest.raises(InvalidRequest, match="upload it again"):
            await uploads.check(UserId("ann"), tree(a="one").id)
        assert (await uploads.upload(ANN, tree(a="one"))).missing == ()
        assert on.state.actions["workspace/ann"].facts["workspace"] == tree(a="one").id


async def test_limits_of_a_workspace_and_of_a_user(tmp_path: Path) -> None:
    async with office(tmp_path) as (_, uploads):
        with pytest.raises(Forbidden):
            await uploads.upload(replace(ANN, role=Role.VIEWER), tree())
        with pytest.raises(LimitExceeded, match="gitignore"):
            await uploads.upload(ANN, tree(a="x" * 1001))
        for letter in "abc":
            data = letter * 900
            assert len((await uploads.upload(ANN, tree(a=data))).missing) == 1, "the unused tree before is deleted"
            await uploads.keep(ANN, data.encode())
            await uploads.upload(ANN, tree(a=data))
        with pytest.raises(LimitExceeded, match="your uploads"):
            await uploads.keep(ANN, b"d" * 900)


async def test_an_upload_goes_on_at_another_server_or_after_a_restart_with_the_same_limit(tmp_path: Path) -> None:
    async with office(tmp_path) as (on, uploads):
        files = tree(a="x" * 900, b="two")
        assert len((await uploads.upload(ANN, files)).missing) == 2
        await uploads.keep(ANN, b"x" * 900)
        other = workspaces_of(on.state, on.journal, tmp_path)
        await other.keep(ANN, b"two")
        assert (await other.upload(ANN, files)).missing == ()
        third = workspaces_of(on.state, on.journal, tmp_path, replace(RULES, user_bytes_max=1000))
        with pytest.raises(LimitExceeded, match="your uploads"):
            await third.keep(ANN, b"d" * 900)


async def test_a_tree_is_kept_while_a_session_waits_for_it(tmp_path: Path) -> None:
    async with office(tmp_path, kept_s=-1.0) as (on, uploads):
        await uploads.upload(ANN, tree(a="one"))
        await uploads.keep(ANN, b"one")
        used = await uploads.upload(ANN, tree(a="one"))
        session_id = await on.submit(workspace=used.id)
        store = uploads._store
        assert store.expire(-1.0, used=uploads._used()) == 0
        await on.cancel(session_id)
        assert store.expire(-1.0, used=uploads._used()) == 1
        assert store.blocks(UserId("ann")) == {}


async def test_a_damaged_block_is_asked_for_again(tmp_path: Path) -> None:
    async with office(tmp_path) as (_, uploads):
        wanted = tree(x="long enough")
        await uploads.upload(ANN, wanted)
        await uploads.keep(ANN, b"long enough")
        assert (await uploads.upload(ANN, wanted)).missing == ()
        (stored,) = await asyncio.to_thread(lambda: list(tmp_path.glob("*/blocks/*")))
        stored.write_bytes(b"long en0ugh")
        with pytest.raises(FileNotFoundError, match="damaged"):
            await asyncio.to_thread(uploads._store.block, ANN.user, stored.name)
        assert (await uploads.upload(ANN, wanted)).missing == (stored.name,)


async def test_files_in_a_folder_that_is_not_mounted_are_waited_for_and_are_not_missing(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    async with office(folder) as (on, uploads):
        listing = tree(a="one")
        await uploads.upload(ANN, listing)
        await uploads.keep(ANN, b"one")
        await uploads.upload(ANN, listing)
        made, begun = session(SessionState.ALLOCATING, owner=ANN.user), kernel(KernelState.STARTING)
        made = replace(made, spec=replace(made.spec, workspace=listing.id))
        await on.journal.transact(lambda draft: draft.put(made, "starting"), actor="test")
        await on.journal.transact(lambda draft: draft.put(begun, "starting"), actor="test")
        asked = order("true", kernel=begun.id, workspace=WorkspaceUse(owner=ANN.user, id=listing.id))
        folder.rename(tmp_path / "unmounted")
        for is_mount_point_there in (False, True):
            if is_mount_point_there:
                folder.mkdir()
            with pytest.raises(Unavailable, match="check that it is mounted"):
                await uploads.transfers.bring(cast(Executor, on.executor), A, asked)
        said = on.state.transfers[begun.id]
        assert said.text is not None
        assert said.text.startswith(f"waiting for the server to read the files: {folder} has nothing")
        assert said.tries == 0
        with pytest.raises(Unavailable, match="check that it is mounted"):
            await uploads.upload(ANN, listing)
        await uploads.upload(BOB, listing)
