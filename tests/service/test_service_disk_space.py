"""A nearly full disk: launches stop, submitted sessions wait, and continue when space is free."""

from pathlib import Path

import pytest

from aliquot.execution.settings import DiskRules
from aliquot.service.alerts.conditions import results_not_copied
from aliquot.service.alerts.rules import DEFAULTS
from aliquot_schema.alerts import AlertRule
from aliquot_schema.cluster.launching import AgentSilent, NewReadings
from aliquot_schema.ids import AgentId, SessionId
from aliquot_schema.states import SessionState
from service_bench import agent
from service_stage import CALLER, Stage, stage

pytestmark = pytest.mark.anyio

A, B = AgentId("a"), AgentId("b")
FULL = "the disk of /data has 3 MiB free; 1 GiB must stay free"


async def report_disk_shortage(on: Stage, name: AgentId, shortage: str | None) -> None:
    await on.on_event(NewReadings(agent_id=name, at_us=1, readings=(), disk_shortage=shortage))


async def why(on: Stage, session_id: SessionId) -> str:
    """The first sentence of an explanation."""
    view = await on.queries.session_why(CALLER, session_id)
    assert view is not None
    assert view.waits is not None
    return view.waits.message


async def message(on: Stage, session_id: SessionId) -> str:
    view = await on.queries.session(CALLER, session_id)
    assert view is not None
    assert view.waits is not None
    return view.waits.message


async def test_nothing_is_launched_while_the_servers_disk_is_nearly_full() -> None:
    async with stage([agent("a", devices=2)]) as on:
        before = await on.submit()
        await on.advance()
        assert on.state.disk_space.note_server(FULL)
        assert not on.state.disk_space.note_server(FULL)
        waiting = await on.submit()
        await on.advance()
        assert on.session(before).state is SessionState.RUNNING
        assert on.session(waiting).state is SessionState.QUEUED
        assert await message(on, waiting) == f"launches are paused: {FULL}"
        assert await why(on, waiting) == f"launches are paused: {FULL}"
        assert on.state.disk_space.shortages() == [f"launches are paused: {FULL}"]
        assert on.state.disk_space.note_server(None)
        await on.advance()
        assert on.session(waiting).state is SessionState.RUNNING
        assert on.state.disk_space.shortages() == []


async def test_an_agent_with_a_full_disk_gets_nothing_new() -> None:
    async with stage([agent("a", devices=2), agent("b", devices=1)]) as on:
        await report_disk_shortage(on, A, FULL)
        sessions = [await on.submit() for _ in range(2)]
        await on.advance()
        states = [on.session(session_id).state for session_id in sessions]
        assert sorted(states) == [SessionState.QUEUED, SessionState.RUNNING]
        assert set(on.held()) == {"b-gpu-0"}
        waiting = sessions[states.index(SessionState.QUEUED)]
        said = await message(on, waiting)
        assert said.endswith(f"; agent a: launches are paused: {FULL}")
        assert ".;" not in said
        assert await why(on, waiting) == said
        await report_disk_shortage(on, A, None)
        await on.advance()
        assert on.session(waiting).state is SessionState.RUNNING
        on.check()


async def test_a_plan_is_checked_against_the_disk_before_it_is_carried_out() -> None:
    async with stage([agent("a", devices=2)]) as on:
        session_id = await on.submit()
        await report_disk_shortage(on, A, FULL)
        await on.advance()
        assert on.session(session_id).state is SessionState.QUEUED


def test_the_free_space_rule_is_checked_on_a_real_file_system(tmp_path: Path) -> None:
    assert DiskRules(bytes_min=0).shortage(tmp_path) is None
    words = DiskRules(bytes_min=2**62).shortage(tmp_path)
    assert words is not None
    assert words.startswith(f"the disk of {tmp_path} has ")
    assert words.endswith("free; 4 EiB must stay free")
    assert DiskRules(bytes_min=2**62).shortage(tmp_path / "missing") is None


async def test_copies_of_results_that_fail_are_an_alert_until_they_succeed() -> None:
    fault = "the results of ses_1 cannot be copied to results-folder; tried every minute: [Errno 13]"
    async with stage([agent("a", devices=1)]) as on:
        rule = DEFAULTS[AlertRule.RESULTS_NOT_COPIED]
        await on.on_event(NewReadings(agent_id=A, at_us=1, readings=(), copy_fault=fault))
        (found,) = results_not_copied(on.state, rule, 0)
        assert (found.subject, found.words) == ("a", f"on agent a, {fault}")
        await on.on_event(NewReadings(agent_id=A, at_us=2, readings=()))
        assert not list(results_not_copied(on.state, rule, 0))
        await on.on_event(NewReadings(agent_id=A, at_us=3, readings=(), copy_fault=fault))
        await on.on_event(AgentSilent(agent_id=A, lost=False))
        assert not list(results_not_copied(on.state, rule, 0))
