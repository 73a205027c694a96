"""Billing: statements of released leases and lost attempts, their recount from the event log, and budgets."""

from typing import Final

import pytest
from msgspec.structs import replace

from aliquot.core.billing.recount import Recount
from aliquot.core.billing.tariffs import hourly
from aliquot.core.fairshare import month_after, month_of, starts_us
from aliquot.core.scheduler.decide import decide
from aliquot.core.scheduler.reason_text import explain
from aliquot.service.billing.statements import Billing
from aliquot.service.state.snapshots import take
from aliquot_schema.billing import MICROS, AtBudget, Price, Prices, Statement
from aliquot_schema.ids import KernelId, KeyId, PoolId, QuotaId
from aliquot_schema.policies import Backfill
from aliquot_schema.quotas import QuotaScope, quota_id
from aliquot_schema.reasons import Reason
from aliquot_schema.requests import NewSession
from aliquot_schema.sessions import Priority
from billing_scenes import GPU_HOUR, HOUR_S, TWO_EUR, end_all, with_budget, with_prices
from service_bench import agent
from service_stage import CALLER, Stage, stage

pytestmark = pytest.mark.anyio

PROJECT: Final = quota_id(QuotaScope.PROJECT, "default")


def statement(on: Stage, account: QuotaId = PROJECT) -> Statement:
    [found] = [one for one in on.state.statements.values() if one.account == account]
    return found


async def recounted(on: Stage, replaced: Statement | None = None) -> list[str]:
    """The faults a recount of the whole log finds, with one stored statement replaced."""
    counted = Recount()
    for event in await on.events():
        counted.apply(event.record)
    stored = on.state.statements | ({} if replaced is None else {replaced.id: replaced})
    return list(counted.faults(stored.values()))


async def test_a_released_lease_is_charged_to_project_and_user_and_matches_the_event_log() -> None:
    async with stage([agent("a", devices=2)]) as on:
        await with_prices(on)
        await on.submit(devices=2)
        await on.advance()
        on.clock.advance(HOUR_S)
        await end_all(on)
        mine = statement(on)
        assert mine.held == mine.used == pytest.approx(2 * GPU_HOUR, rel=1e-3)
        assert mine.cost == pytest.approx(4 * MICROS, rel=1e-3)
        assert statement(on, quota_id(QuotaScope.USER, CALLER.user)).by_kind == mine.by_kind
        assert await recounted(on) == []
        wrong = replace(mine, used=mine.used - 1, idle=1)
        [fault] = [line for line in await recounted(on, replaced=wrong) if "project" in line]
        assert f"used {mine.used - 1}, idle 1" in fault


@pytest.mark.parametrize("pattern", ["*H100*", "nvidia h100 80gb hbm3", ""])
def test_the_model_of_a_price_is_a_pattern_as_that_of_a_session(pattern: str) -> None:
    prices = Prices(rates=(Price(micros=2, model="H100"), Price(micros=3, model=pattern), Price(micros=1)))
    assert set(hourly(prices, "NVIDIA H100 80GB HBM3", PoolId("default"))) == {3}
    assert set(hourly(prices, "NVIDIA A100-SXM4-40GB", PoolId("default"))) == {1 if pattern else 3}


async def test_without_prices_no_statement_is_written() -> None:
    async with stage([agent("a", devices=1)]) as on:
        await on.submit()
        await on.advance()
        on.clock.advance(HOUR_S)
        queries = Billing(state=on.state, journal=on.journal, clock=on.clock)
        assert queries.statements(CALLER, month=None) == ()
        await end_all(on)
        assert not on.state.statements
        assert await recounted(on) == []


async def test_time_lost_to_a_failure_is_charged_to_the_owner() -> None:
    async with stage([agent("a", devices=1)]) as on:
        await with_prices(on)
        await on.submit()
        await on.advance()
        on.clock.advance(HOUR_S)
        await end_all(on, code=1)
        mine = statement(on)
        assert mine.used == 0
        assert mine.lost_failure == pytest.approx(GPU_HOUR, rel=1e-3)
        assert mine.cost == pytest.approx(2 * MICROS, rel=1e-3)
        assert mine.credited == 0
        assert await recounted(on) == []


async def test_time_lost_to_a_preemption_is_credited() -> None:
    async with stage([agent("a", devices=1)]) as on:
        await with_prices(on, order="priority")
        await on.submit(preemptible=True, priority="low")
        await on.advance()
        on.clock.advance(HOUR_S)
        await on.submit(priority="high")
        await on.advance()
        on.executor.end_kernel(KernelId(on.live()[0]), code=None, signal=15)
        await on.settle()
        mine = statement(on)
        assert mine.lost_preemption == mine.held == pytest.approx(GPU_HOUR, rel=0.1)
        assert mine.cost == 0
        assert mine.credited == pytest.approx(2 * MICROS, rel=0.1)
        await end_all(on)
        assert await recounted(on) == []


async def test_a_lease_across_months_is_charged_to_each_month() -> None:
    async with stage([agent("a", devices=1)]) as on:
        await with_prices(
            on, replace(TWO_EUR, rates=(Price(micros=MICROS, from_hour=22, until_hour=6), *TWO_EUR.rates))
        )
        await on.submit()
        await on.advance()
        on.clock.advance(40 * 24 * HOUR_S)
        await end_all(on)
        months = [one for one in on.state.statements.values() if one.account == PROJECT]
        assert len(months) >= 2
        assert sum(one.held for one in months) == pytest.approx(960 * GPU_HOUR, rel=1e-3)
        assert sum(one.cost for one in months) == pytest.approx(40 * (8 + 32) * MICROS, rel=1e-3)
        assert await recounted(on) == []


async def test_a_spent_budget_holds_the_sessions_of_its_project_until_the_next_month() -> None:
    async with stage([agent("a", devices=3)]) as on:
        await with_prices(on)
        await with_budget(on, 3)
        await on.submit()
        await on.advance()
        on.clock.advance(2 * HOUR_S)  # 4 EUR, not released
        waits = await on.submit()
        await on.create_project("free")
        starts = await on.submit(project="free")
        await on.advance()
        assert on.session(starts).state == "running"
        verdict = on.state.verdicts[waits]
        assert verdict.reason is Reason.QUOTA
        assert explain(verdict).startswith("Project default has spent 133 % of its budget of 3.00 EUR this month; the ")
        await end_all(on)
        on.clock.advance(31 * 24 * HOUR_S)
        await on.advance()
        assert on.session(waits).state == "running"


async def test_a_budget_lowers_the_priority_instead_where_the_policy_says_so() -> None:
    async with stage([agent("a", devices=1)]) as on:
        prices = replace(TWO_EUR, at_budget=AtBudget.LOW)
        await with_prices(on, prices, order="priority", backfill=Backfill.NONE)
        await with_budget(on, 1, QuotaScope.USER, CALLER.user)
        await on.submit(preemptible=False)
        await on.advance()
        on.clock.advance(HOUR_S)
        late = await on.submit()
        await on.advance()
        verdict = on.state.verdicts[late]
        assert verdict.evidence.lowered_by == quota_id(QuotaScope.USER, CALLER.user)
        assert "Its priority is low: User ann has spent 2" in explain(verdict)
        assert "of their budget of 1.00 EUR this month." in explain(verdict)
        assert take(on.state).queue[0].priority is Priority.NORMAL
        now_us = on.clock.now_us()
        plan = decide(take(on.state), on.state.rules, now_us=now_us, seed=0)
        assert plan.wake_at_us == starts_us(month_after(month_of(now_us))), "its priority returns then"
        await end_all(on)
        await on.advance()
        assert on.session(late).state == "running"


async def test_a_budget_of_an_api_key_counts_the_sessions_of_that_key_alone() -> None:
    async with stage([agent("a", devices=2)]) as on:
        await with_prices(on)
        await with_budget(on, 0, QuotaScope.KEY, "key_bot")
        await on.submit()
        bot = replace(CALLER, key_id=KeyId("key_bot"))
        request = NewSession(argv=("true",), shell=None, slots=[("cuda.device", "1")])
        made = await on.sessions.create_session(bot, request)
        await on.advance()
        assert on.session(made.session.id).state == "queued"
        assert "API key key_bot has a budget of 0.00 EUR" in explain(on.state.verdicts[made.session.id])
