"""Statements, estimates, fair shares and budget notices, as users see them."""

import csv
import io
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace
from sqlalchemy import update

from aliquot.service.alerts.conditions import budget_spent
from aliquot.service.alerts.rules import DEFAULTS
from aliquot.service.billing.statements import Billing
from aliquot.service.quotas import Quotas
from aliquot.store.statement_check import statement_faults
from aliquot.store.store import DatabaseStore
from aliquot.store.tables import STATEMENTS
from aliquot_schema.alerts import AlertRule
from aliquot_schema.billing import MICROS, Price, Prices, TimeKind
from aliquot_schema.errors import InvalidRequest, NotFound
from aliquot_schema.quotas import QuotaScope
from aliquot_schema.requests import NewSession
from aliquot_schema.views.admin import NewQuota
from aliquot_schema.views.billing import DocumentFormat
from billing_scenes import HOUR_S, end_all, with_budget, with_prices
from service_bench import agent
from service_stage import CALLER, Stage, stage

pytestmark = pytest.mark.anyio


def billing(on: Stage) -> Billing:
    return Billing(state=on.state, journal=on.journal, clock=on.clock)


async def test_a_statement_shows_gpu_hours_cost_share_and_reasons_for_waiting() -> None:
    async with stage([agent("a", devices=3)]) as on:
        await with_prices(on)
        await on.create_project("vision")
        await with_budget(on, 3)
        await on.submit(devices=2)
        await on.submit(project="vision")
        await on.advance()
        on.clock.advance(HOUR_S)
        await end_all(on)
        found = billing(on).statement(CALLER, project="default", month=None)
        assert found.gpu_hours == pytest.approx(2, rel=1e-3)
        assert found.held == sum(line.amount for line in found.lines)
        assert [line.kind for line in found.lines if line.amount] == [TimeKind.USED]
        assert found.ettr == 1
        assert found.cost == pytest.approx(4, rel=1e-3)
        assert (found.share, found.entitlement) == (pytest.approx(2 / 3, rel=1e-3), 0.5)
        assert any("66.7 % of all device time with an entitlement of 50.0 %" in text for text in found.behind)
        assert any(text.startswith("Its budget of 3.00 EUR was used up") for text in found.behind)
        await with_prices(on, order="priority")
        other = billing(on).statement(CALLER, project="default", month=None)
        assert not any("fair share" in text for text in other.behind)
        await with_prices(on)
        both = billing(on).statements(CALLER, month=found.month)
        assert [one.project for one in both] == ["default", "vision"]
        with pytest.raises(NotFound):
            billing(on).statement(CALLER, project="default", month="2001-01")
        with pytest.raises(InvalidRequest, match="write it like 2026-11"):
            billing(on).statement(CALLER, project="default", month="Nov")
        for month in ("0000-01", "1969-12", "9999-12"):
            with pytest.raises(InvalidRequest, match=f"{month} is not within 1970-01 to 9998-12"):
                billing(on).statement(CALLER, project="default", month=month)
        with pytest.raises(NotFound, match="9998-12"):
            billing(on).statement(CALLER, project="default", month="9998-12")


async def test_of_an_array_the_tasks_count_as_sessions() -> None:
    async with stage([agent("a", devices=1)]) as on:
        await with_prices(on)
        await on.submit(array="0-2")
        for _ in range(3):
            await on.advance()
            on.clock.advance(HOUR_S)
            await end_all(on)
        found = billing(on).statement(CALLER, project="default", month=None)
        assert (found.sessions, found.mean_wait) == (3, pytest.approx(HOUR_S, rel=1e-3))


async def test_a_statement_is_exported_as_html_and_csv() -> None:
    async with stage([agent("a", devices=1)]) as on:
        await with_prices(on)
        await on.create_project("=<b>")
        await on.submit(project="=<b>")
        await on.advance()
        on.clock.advance(HOUR_S)
        view = billing(on).statement(CALLER, project="=<b>", month=None)
        assert (view.gpu_hours, view.open_gpu_hours) == (0, pytest.approx(1, rel=1e-3))
        assert [one.project for one in billing(on).statements(CALLER, month=None)] == ["=<b>"]
        texts = {
            kind: billing(on).statement_document(CALLER, project="=<b>", month=None, format=kind)
            for kind in DocumentFormat
        }
        rows = list(csv.DictReader(io.StringIO(texts[DocumentFormat.CSV])))
        assert {row["project"] for row in rows} == {"'=<b>"}
        assert [row["amount"] for row in rows if row["item"] == "not lost (ETTR)"] == [""]
        assert {row["item"] for row in rows} >= {"held", "used", "idle", "lost to failures", "lost to preemption"}
        assert "project =&lt;b&gt;, " in texts[DocumentFormat.HTML]
        assert "<b>" not in texts[DocumentFormat.HTML]


async def test_a_preview_estimates_the_price_by_the_hour_of_the_day_and_the_time_limit() -> None:
    async with stage([agent("a", devices=2)]) as on:
        request = NewSession(argv=("true",), shell=None, slots=[("cuda.device", "2")], time_limit=7200.0)
        assert (await on.previews.preview(CALLER, request)).cost is None
        hour = on.clock.now_us() // 1_000_000 // HOUR_S % 24
        later = (hour + 1) % 24
        night = Price(micros=10 * MICROS, from_hour=later, until_hour=(later + 12) % 24 or 24)
        await with_prices(on, Prices(rates=(night, Price(micros=MICROS)), currency="CHF"))
        found = (await on.previews.preview(CALLER, request)).cost
        assert found is not None
        left = 1 - on.clock.now_us() / 1e6 / HOUR_S % 1
        assert found.amount_max == pytest.approx(2 * (left * 1 + (2 - left) * 10), rel=1e-3)
        assert "at most" in found.text
        assert "CHF" in found.text


async def test_fair_shares_say_what_would_move_a_user_up() -> None:
    async with stage([agent("a", devices=3)]) as on:
        bob = replace(CALLER, user="bob")
        await on.submit(devices=2)
        slots = [("cuda.device", "1")]
        await on.sessions.create_session(bob, NewSession(argv=("true",), shell=None, slots=slots))
        await on.advance()
        on.clock.advance(HOUR_S)
        ann, other = billing(on).fair_shares(CALLER, user=None, project=None)
        assert (ann.user, other.user) == ("ann", "bob")
        assert (ann.share, ann.entitlement) == (pytest.approx(2 / 3, rel=1e-3), 0.5)
        assert ann.at_entitlement_at is not None
        wait_s = ann.at_entitlement_at.timestamp() - on.clock.now_us() / 1e6
        assert wait_s == pytest.approx(HOUR_S, abs=120), "bob catches up in an hour"
        assert ann.curve[0] == pytest.approx(ann.gpu_hours_decayed)
        assert ann.curve[8] == pytest.approx(ann.curve[0] / 2, rel=1e-6)
        assert "if nothing more is held, the share falls to the entitlement at " in ann.advice
        assert "fair share moves these sessions up" in other.advice
        [alone] = billing(on).fair_shares(CALLER, user="bob", project=None)
        assert (alone.user, alone.entitlement) == ("bob", 0.5)


async def test_a_budget_is_a_quota_and_warns_from_80_percent() -> None:
    async with stage([agent("a", devices=1)]) as on:
        quotas, rule = Quotas(state=on.state, journal=on.journal, clock=on.clock), DEFAULTS[AlertRule.BUDGET_SPENT]
        await with_prices(on)
        asked = NewQuota(scope=QuotaScope.PROJECT, name="default", budget=4.0)
        assert (await quotas.set_quota(CALLER, asked, None)).quota.budget == 4.0
        with pytest.raises(InvalidRequest, match="the only limit of an API key is its budget"):
            await quotas.set_quota(CALLER, NewQuota(scope=QuotaScope.KEY, name="key_a", weight=1), None)
        await on.submit()
        await on.advance()
        on.clock.advance(1.5 * HOUR_S)
        assert list(budget_spent(on.state, rule, on.clock.now_us())) == []
        on.clock.advance(0.2 * HOUR_S)
        [warned] = budget_spent(on.state, rule, on.clock.now_us())
        assert warned.words == "Project default has spent 3.40 EUR of a budget of 4.00 EUR (85 %) this month"
        assert warned.owners == ()
        await end_all(on)
        [warned] = budget_spent(on.state, rule, on.clock.now_us())
        assert warned.owners == ("ann",)
        spent = {f"{use.scope}:{use.name}": use.cost_month for use in quotas.quota_use(CALLER)}
        assert spent["project:default"] == spent["cluster:"] == pytest.approx(3.4, rel=1e-3)


async def test_the_check_of_a_database_computes_its_statements_again(tmp_path: Path) -> None:
    async with stage([agent("a", devices=1)]) as on:
        await with_prices(on)
        await on.submit()
        await on.advance()
        on.clock.advance(HOUR_S)
        await end_all(on, code=1)
        if isinstance(on.store, DatabaseStore):
            check, database = partial(statement_faults, folder=tmp_path), on.store._database
            assert await database.read(check) == []
            await database.write(lambda connection: connection.execute(update(STATEMENTS).values(used=1)))
            faults = await database.read(check)
            assert faults is not None
            assert len(faults) == 2
            assert "statement project:default/" in faults[0]
            assert "used 1, " in faults[0]
