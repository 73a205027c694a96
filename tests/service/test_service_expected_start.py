"""Expected start times of waiting sessions, as users see them."""

from datetime import timedelta

import pytest

from aliquot.service.admin.policy import Policies
from aliquot_schema.views.sessions import SessionView
from service_bench import agent
from service_stage import CALLER, Stage, stage

pytestmark = pytest.mark.anyio


async def view(on: Stage, session_id: str) -> SessionView:
    found = await on.queries.session(CALLER, session_id)
    assert found is not None
    return found


async def waiting(on: Stage, *, backfill: str) -> tuple[SessionView, SessionView, SessionView]:
    """One session running for at most an hour, and two waiting for its devices."""
    await Policies(state=on.state, journal=on.journal, clock=on.clock).update_policy(
        CALLER, {"order": "fcfs", "backfill": backfill}, None
    )
    runs = await on.submit(time_limit=3600)
    await on.advance()
    waits = [await on.submit(time_limit=600) for _ in range(2)]
    await on.advance()
    return await view(on, runs), await view(on, waits[0]), await view(on, waits[1])


@pytest.mark.parametrize("backfill", ["none", "easy", "conservative"])
async def test_the_backfill_mode_decides_which_waiting_sessions_have_an_expected_start(backfill: str) -> None:
    async with stage([agent("a", devices=1)]) as on:
        runs, head, second = await waiting(on, backfill=backfill)
        assert runs.expected_start is None
        assert head.expected_start == (None if backfill == "none" else runs.reserve_until)
        if backfill == "conservative":
            assert head.expected_start is not None
            assert second.expected_start == head.expected_start + timedelta(seconds=600)
        else:
            assert second.expected_start is None


async def test_a_session_query_explains_the_place_in_the_queue() -> None:
    async with stage([agent("a", devices=1)]) as on:
        runs = await on.submit(time_limit=3600)
        await on.advance()
        waits = await on.submit(estimated_duration=600)
        await on.advance()
        on.clock.advance(1800)
        found = (await view(on, waits)).order_explanation
        assert found is not None
        assert found.startswith("waited 30 min of 2 h")
        assert "10 min long by its owner's estimate: +1.92" in found
        assert "priority normal: +1.00" in found
        assert "use of its share counts" in found
        assert (await view(on, runs)).order_explanation is None
        await Policies(state=on.state, journal=on.journal, clock=on.clock).update_policy(
            CALLER, {"order": "fcfs"}, None
        )
        found = (await view(on, waits)).order_explanation
        assert found is not None
        assert found.startswith("No session that came later starts before an earlier one by order.")
