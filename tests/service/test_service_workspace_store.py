"""A store of workspaces that cannot be read for some time: no try is lost, and no GPU stays allocated to a session that
cannot start."""

import threading
from pathlib import Path
from unittest import mock

import pytest

from aliquot.service.accounts import workspace_transfers
from aliquot.service.lifecycle.image_pulls import UNREADABLE_US
from aliquot.service.lifecycle.kernel_reports import apply_report
from aliquot.service.state.transfers import TRIES_MAX
from aliquot_schema.cluster.launching import KernelPhase, KernelReport
from aliquot_schema.errors import Unavailable
from aliquot_schema.resources.leases import EndEvidence
from aliquot_schema.states import KernelState, SessionState
from core_records import session
from service_reaping import A
from workspace_parts import Agents, starting, tree, uploaded

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), RuntimeError("no route to the bucket")])
async def test_a_store_that_fails_for_some_time_costs_no_tries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async with uploaded(tmp_path / "server", a="one", b="two") as (on, uploads, asked):
        one = Agents(tmp_path / "agent")
        for name in ("_read", "_block"):
            with monkeypatch.context() as patch:
                patch.setattr(uploads.transfers, name, mock.Mock(side_effect=error))
                for _ in range(2 * TRIES_MAX):
                    with pytest.raises(Unavailable, match="cannot be read"):
                        await uploads.transfers.bring(one.executor, A, asked)
            transfer = on.state.transfers[asked.kernel_id]
            assert (transfer.text, transfer.tries) == (f"waiting for the server to read the files: {error}", 0)
        assert await uploads.transfers.bring(one.executor, A, asked) is None
        assert one.cache.has(tree(a="one", b="two").id)
        await one.worker.close()


async def test_a_session_whose_files_cannot_be_read_gives_its_devices_back_and_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with uploaded(tmp_path / "server", a="one") as (on, uploads, asked):
        one, begun, now_us = Agents(tmp_path / "agent"), session(SessionState.ALLOCATING), 10**15
        asked = await starting(on, asked.workspace, agent_id=A)
        await on.journal.transact(lambda draft: draft.put(begun, "allocating"), actor="test")
        with monkeypatch.context() as patch:
            patch.setattr(uploads.transfers, "_read", mock.Mock(side_effect=OSError("stale file handle")))
            with pytest.raises(Unavailable, match="stale file handle"):
                await uploads.transfers.bring(one.executor, A, asked)
            assert on.state.kernels[asked.kernel_id].state is KernelState.STARTING
            patch.setattr(workspace_transfers, "UNREADABLE_S_MAX", 0.0)
            with pytest.raises(Unavailable, match="stale file handle"):
                await uploads.transfers.bring(one.executor, A, asked)
        stopping = on.state.kernels[asked.kernel_id]
        assert stopping.state is KernelState.STOPPING
        ended = KernelReport(
            kernel_id=asked.kernel_id, phase=KernelPhase.EXITED, at_us=now_us, evidence=EndEvidence.NEVER_SENT
        )
        await on.journal.transact(
            lambda draft: apply_report(draft, ended, agent_id=stopping.agent_id, now_us=now_us), actor="test"
        )
        waiting = on.state.sessions[begun.id]
        assert (waiting.state, waiting.retries, waiting.failure) == (SessionState.QUEUED, begun.retries, None)
        assert (waiting.excluded_agents, waiting.not_before_us) == ((), now_us + UNREADABLE_US)
        [refused] = [event for event in await on.events() if event.kind == "session.launch_refused"]
        assert "the server cannot read its files: stale file handle" in str(refused.record)
        await one.worker.close()


async def test_a_store_that_hangs_fails_after_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on = threading.Event()
    monkeypatch.setattr(workspace_transfers, "STORE_S_MAX", 0.01)
    async with uploaded(tmp_path / "server", a="one") as (_, uploads, asked):
        one = Agents(tmp_path / "agent")
        monkeypatch.setattr(uploads.transfers, "_read", lambda *_: goes_on.wait(60))
        with pytest.raises(Unavailable, match="not answered for"):
            await uploads.transfers.bring(one.executor, A, asked)
        goes_on.set()
        await one.worker.close()
