"""Rules changed and muted by users."""

import pytest
from msgspec.structs import replace

from aliquot.clock import RandomIds
from aliquot.service.alerts.api import AlertCommands
from aliquot.service.alerts.plan import AlertPlan
from aliquot.service.alerts.rules import DEFAULTS
from aliquot_schema.alerts import AlertRule
from aliquot_schema.errors import VersionConflict
from aliquot_schema.views.alerts import NoticeRuleChanges
from notices_pipeline import AlertPipeline, alert_pipeline
from service_stage import CALLER

pytestmark = pytest.mark.anyio

RULE = AlertRule.QUEUE_BACKLOG


def office(on: AlertPipeline, *, threshold: int) -> AlertCommands:
    """For a server whose settings change the rule's threshold."""
    rules = {**DEFAULTS, RULE: replace(DEFAULTS[RULE], threshold=threshold)}
    plan = AlertPlan(ids=RandomIds(), rules=rules)
    return AlertCommands(state=on.stage.state, journal=on.stage.journal, clock=on.stage.clock, plan=plan)


async def test_muting_a_rule_keeps_its_configured_threshold() -> None:
    async with alert_pipeline() as on:
        muted = (await office(on, threshold=7).mute_notice_rule(CALLER, RULE, 60)).rule
        assert (muted.threshold, muted.version, muted.muted_until is None) == (7, 0, False)
        after = office(on, threshold=9)
        rule = next(rule for rule in after.notice_rules(CALLER) if rule.rule is RULE)
        assert (rule.threshold, rule.muted_until) == (9, muted.muted_until)
        ended = (await after.mute_notice_rule(CALLER, RULE, 0)).rule
        assert (ended.threshold, ended.muted_until) == (9, None)


async def test_a_rule_changed_by_an_admin_overrides_the_settings_also_when_muted() -> None:
    async with alert_pipeline() as on:
        changes = NoticeRuleChanges(rule=RULE, threshold=3)
        await office(on, threshold=7).mute_notice_rule(CALLER, RULE, 60)
        changed = (await office(on, threshold=7).set_notice_rule(CALLER, changes, 0)).rule
        assert (changed.threshold, changed.version, changed.muted_until is None) == (3, 1, False)
        ended = (await office(on, threshold=9).mute_notice_rule(CALLER, RULE, 0)).rule
        assert (ended.threshold, ended.version, ended.muted_until) == (3, 1, None)
        with pytest.raises(VersionConflict):
            await office(on, threshold=9).set_notice_rule(CALLER, changes, 0)
