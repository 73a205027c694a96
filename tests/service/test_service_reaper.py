"""The reaper: a discrepancy is confirmed by a second look, reported, repaired, and checked."""

from dataclasses import dataclass
from typing import Any

import pytest
from msgspec.structs import replace

from aliquot.service.admin.admin import Administration
from aliquot_schema.cluster.findings import Discrepancy as D
from aliquot_schema.cluster.launching import Inventory, KernelPhase, KernelReport, LaunchOrder, SpecOnDisk
from aliquot_schema.ids import AgentId, KernelId
from aliquot_schema.resources.leases import EndEvidence
from aliquot_schema.states import KernelState
from aliquot_schema.states import SessionState as S
from service_bench import agent
from service_fakes import FakeAgent
from service_reaping import GPU, A, kinds, reaper_of, running
from service_stage import CALLER, stage

pytestmark = pytest.mark.anyio


@dataclass
class Specs(FakeAgent):
    """A fake agent that also reports its spec files."""

    specs: tuple[SpecOnDisk, ...] = ()

    def inventory(self) -> Inventory:
        return replace(super().inventory(), specs=self.specs)


def tombstone(kernel_id: KernelId) -> KernelReport:
    return KernelReport(
        kernel_id=kernel_id, phase=KernelPhase.REFUSED, at_us=1, evidence=EndEvidence.TOMBSTONE, code=None
    )


async def test_the_reaper_writes_nothing_when_it_finds_no_differences() -> None:
    async with stage([agent("a", devices=2)]) as on:
        await running(on)
        events = on.state.revision
        reaper = reaper_of(on)
        assert [await reaper.run_once() for _ in range(3)] == [0, 0, 0]
        assert on.state.revision == events


async def test_a_lease_without_a_process_is_released_only_with_evidence_from_the_agent() -> None:
    async with stage([agent("a", devices=1)]) as on:
        session_id, kernel_id = await running(on)
        fake = on.executor.agents[A]
        fake.running.clear()
        del fake.orders[kernel_id]
        reaper = reaper_of(on)
        assert (await reaper.run_once(), on.state.findings) == (1, {})
        await reaper.run_once()
        assert kinds(on.state) == [D.LEASE_WITHOUT_PROCESS]
        assert on.state.kernels[kernel_id].state is KernelState.STOPPING
        assert on.held() == {GPU: 1000}, "nothing is free before there is evidence"
        await on.dispatch.close()
        assert fake.stopped == [kernel_id]
        fake.orders[kernel_id] = _order(kernel_id)
        fake.ended[kernel_id] = tombstone(kernel_id)
        on.executor.repeat_report(kernel_id)
        await on.settle()
        assert on.held() == {}
        assert on.session(session_id).state in (S.FAILED, S.QUEUED)
        await reaper.run_once()
        assert on.state.findings == {}
        told = [event.record for event in await on.events() if event.kind.startswith("finding.")]
        assert [getattr(record, "evidence", None) for record in told] == [
            "the store has it running; its agent has not started it"
        ] * 2


async def test_the_reaper_records_a_kernel_end_whose_report_was_lost() -> None:
    async with stage([agent("a", devices=2)]) as on:
        session_id, kernel_id = await running(on)
        on.executor.end_kernel(kernel_id, code=3)
        assert len(on.executor.take_messages()) == 1
        reaper = reaper_of(on)
        await reaper.run_once()
        assert on.session(session_id).state is S.RUNNING
        await reaper.run_once()
        assert (on.session(session_id).state, on.session(session_id).exit_code) == (S.FAILED, 3)
        assert on.held() == {}


async def test_a_lost_order_is_sent_again() -> None:
    async with stage([agent("a", devices=2)]) as on:
        session_id = await on.submit()
        fake = on.executor.agents[A]
        fake.loses_orders = True
        await on.advance()
        fake.loses_orders = False
        reaper = reaper_of(on)
        for _ in range(2):
            await reaper.run_once()
        await on.settle()
        assert on.session(session_id).state is S.RUNNING


async def test_a_process_without_a_lease_is_ended() -> None:
    async with stage([agent("a", devices=2)]) as on:
        _, kernel_id = await running(on)
        on.executor.end_kernel(kernel_id)
        await on.settle()
        fake = on.executor.agents[A]
        stranger = KernelId("ses_old.1.0")
        fake.running |= {kernel_id, stranger}
        del fake.ended[kernel_id]
        reaper = reaper_of(on)
        for _ in range(2):
            await reaper.run_once()
        assert kinds(on.state) == [D.PROCESS_WITHOUT_LEASE] * 2
        await on.dispatch.close()
        assert sorted(fake.stopped) == sorted([kernel_id, stranger])
        fake.running.clear()
        await reaper.run_once()
        assert on.state.findings == {}


async def test_a_kernel_that_still_runs_after_a_cancel_is_stopped_again_after_its_grace() -> None:
    async with stage([agent("a", devices=2)]) as on:
        session_id, kernel_id = await running(on)
        await on.cancel(session_id)
        await on.settle()
        reaper = reaper_of(on)
        assert [await reaper.run_once() for _ in range(3)] == [0, 0, 0], "it has its grace to end in"
        on.clock.advance(1)
        for _ in range(2):
            await reaper.run_once()
        await on.dispatch.close()
        assert on.executor.agents[A].stopped == [kernel_id, kernel_id]
        assert kinds(on.state) == [D.PROCESS_AFTER_END]
        on.executor.end_kernel(kernel_id, code=None, signal=9)
        await on.settle()


async def test_the_reaper_leaves_a_preempted_session_its_grace_period() -> None:
    async with stage([agent("a", devices=2)]) as on:
        session_id, kernel_id = await running(on, preemptible=True)
        admin = Administration(state=on.state, journal=on.journal, clock=on.clock)
        await admin.agents.drain_agent(CALLER, "a", note=None, evicts=True)
        await on.settle()
        assert on.session(session_id).state is S.PREEMPTING
        reaper = reaper_of(on)
        on.clock.advance(10)
        assert [await reaper.run_once() for _ in range(3)] == [0, 0, 0]
        on.clock.advance(30)
        await on.allocator.run_once()
        for _ in range(2):
            await reaper.run_once()
        assert kinds(on.state) == [D.PROCESS_AFTER_END]
        on.executor.end_kernel(kernel_id)
        await on.settle()


@pytest.mark.parametrize(
    ("specs", "kind"),
    [
        (lambda kernel: (SpecOnDisk(kernel_id=KernelId("ses_old.1.0"), spec={}, ended=False),), D.SPEC_WITHOUT_LEASE),
        (lambda kernel: (SpecOnDisk(kernel_id=kernel, spec=None, ended=False),), D.SPEC_DIFFERS),
        (lambda kernel: (SpecOnDisk(kernel_id=kernel, spec=_spec(GPU, 1), ended=False),), None),
        (lambda kernel: (SpecOnDisk(kernel_id=kernel, spec=_spec("a-gpu-1", 1), ended=False),), D.SPEC_DIFFERS),
        (lambda kernel: (SpecOnDisk(kernel_id=KernelId("ses_old.1.0"), spec={}, ended=True),), None),
    ],
)
async def test_the_reaper_compares_spec_files_with_leases(specs: object, kind: D | None) -> None:
    fake = Specs(id=A, devices=agent("a", devices=1).devices)
    async with stage([fake]) as on:
        _, kernel_id = await running(on)
        fake.specs = specs(kernel_id)  # type: ignore[operator]  # a function of the kernel
        reaper = reaper_of(on)
        for _ in range(2):
            await reaper.run_once()
        await on.dispatch.close()
        assert kinds(on.state) == ([] if kind is None else [kind])
        assert fake.stopped == (["ses_old.1.0"] if kind is D.SPEC_WITHOUT_LEASE else [])


async def test_changes_during_an_inspection_give_no_findings() -> None:
    async with stage([agent("a", devices=2)]) as on:
        _, kernel_id = await running(on)
        fake = on.executor.agents[A]
        told = fake.inventory()
        on.executor.end_kernel(kernel_id)
        await on.settle()
        second, _ = await running(on)
        asked = on.executor.inventory

        async def late(agent_id: AgentId) -> Inventory:
            await asked(agent_id)
            return told

        on.executor.inventory = late  # type: ignore[method-assign]  # its earlier answer
        reaper = reaper_of(on)
        before = await reaper.inspect_all()
        assert {(one.kind, one.subject) for one in before.differences} == {
            (D.PROCESS_WITHOUT_LEASE, kernel_id),
            (D.LEASE_WITHOUT_PROCESS, f"{second}.1.0"),
        }
        await reaper.run_once()
        on.executor.inventory = asked  # type: ignore[method-assign]
        await reaper.run_once()
        assert on.state.findings == {}


async def test_a_kernel_that_starts_while_a_finding_is_confirmed_is_not_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with stage([agent("a", devices=2)]) as on:
        on.executor.start_by_itself = False
        session_id = await on.submit()
        await on.advance()
        kernel_id = KernelId(f"{session_id}.1.0")
        fake = on.executor.agents[A]
        order = fake.orders.pop(kernel_id)
        reaper = reaper_of(on)
        await reaper.run_once()
        persist = on.journal.persist

        async def starts_first(*args: Any, **more: Any) -> Any:
            monkeypatch.setattr(on.journal, "persist", persist)
            fake.orders[kernel_id] = order
            on.executor.start_kernel(kernel_id)
            await on.settle()
            return await persist(*args, **more)

        monkeypatch.setattr(on.journal, "persist", starts_first)
        await reaper.run_once()
        await on.settle()
        assert on.session(session_id).state is S.RUNNING
        assert (on.state.kernels[kernel_id].state, fake.stopped) == (KernelState.RUNNING, [])


async def test_an_agent_that_does_not_answer_is_left_alone() -> None:
    async with stage([agent("a", devices=2)]) as on:
        await running(on)
        on.executor.silent.add(A)
        assert await reaper_of(on).run_once() == 0
        on.executor.silent.clear()


async def test_an_inspection_without_repair_changes_nothing() -> None:
    async with stage([agent("a", devices=2)]) as on:
        await running(on)
        on.executor.agents[A].running.clear()
        on.executor.agents[A].orders.clear()
        events = on.state.revision
        reaper = reaper_of(on)
        for _ in range(3):
            look = await reaper.inspect_all()
            assert look.asked == (A,)
            assert [one.kind for one in look.differences] == [D.LEASE_WITHOUT_PROCESS]
        assert on.state.revision == events


def _spec(device: str, amount: int) -> dict[str, dict[str, int]]:
    return {"cuda.device": {device: amount}}


def _order(kernel_id: KernelId) -> LaunchOrder:
    return LaunchOrder(kernel_id=kernel_id, epoch=1, argv=(), environment={}, working_directory=None, spec={})
