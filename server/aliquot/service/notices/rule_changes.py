"""Rules, changed and muted by people."""

from dataclasses import replace
from typing import Any, Final

from aliquot.service.draft import Draft
from aliquot.service.notices.projection import rule_view
from aliquot.service.notices.rules import Rules, mute_id
from aliquot.service.notices.terms import SECOND_US
from aliquot.service.office import Office, check_version
from aliquot.service.permissions import check_role
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.notice_views import NoticeRuleChanged, NoticeRuleChanges, NoticeRuleView
from aliquot_schema.notices import AlertRule, NoticeRule
from aliquot_schema.requests import Caller
from aliquot_schema.roles import Role

DURATION_S_MAX: Final = 30 * 86_400
NUMBER_MAX: Final = 10_000_000
_MOST: Final = {"threshold": NUMBER_MAX, "floor": NUMBER_MAX, "for_s": DURATION_S_MAX}


class RuleChanges(Office):
    """Kept in the store, for all servers."""

    notice_rules_set: Rules | None = None
    """With what the settings say; None = with what is usual."""

    def notice_rules(self, caller: Caller) -> tuple[NoticeRuleView, ...]:
        """All rules.

        Raises:
            Forbidden: for operators.
        """
        check_role(caller, Role.OPERATOR)
        return tuple(map(rule_view, self._rules.all()))

    async def set_notice_rule(
        self, caller: Caller, changes: NoticeRuleChanges, expected_version: int | None
    ) -> NoticeRuleChanged:
        """Change a rule; what is None stays.

        Raises:
            Forbidden: for admins; InvalidRequest, VersionConflict.
        """
        check_role(caller, Role.ADMIN)
        given = _given(changes)
        return await self._change(caller, changes.rule, given, expected=expected_version)

    async def mute_notice_rule(self, caller: Caller, rule: AlertRule, seconds: float) -> NoticeRuleChanged:
        """Let nobody be told of its alerts for a while; 0 ends that.

        Raises:
            Forbidden: for operators; InvalidRequest: for too long.
        """
        check_role(caller, Role.OPERATOR)
        if not 0 <= seconds <= DURATION_S_MAX:
            raise InvalidRequest(f"seconds: 0 to {DURATION_S_MAX}", field="seconds")
        until_us = self._clock.now_us() + round(seconds * SECOND_US) if seconds else None
        mute = NoticeRule(id=mute_id(rule), muted_until_us=until_us, changed_us=self._clock.now_us())
        await self._act(caller, lambda draft: draft.put(mute, "muted" if seconds else "unmuted"))
        return self._as_it_is(rule)

    @property
    def _rules(self) -> Rules:
        return self.notice_rules_set or Rules(self._state.noticed)

    async def _change(
        self, caller: Caller, rule: AlertRule, given: dict[str, Any], *, expected: int | None
    ) -> NoticeRuleChanged:
        def change(draft: Draft) -> None:
            known = draft.notice(NoticeRule, rule.value) or self._rules.of(rule)
            check_version(rule.value, expected=expected, actual=known.version)
            wanted = replace(known, **given)
            if wanted != known:
                draft.put(replace(wanted, changed_us=self._clock.now_us()), "changed")

        await self._act(caller, change)
        return self._as_it_is(rule)

    def _as_it_is(self, rule: AlertRule) -> NoticeRuleChanged:
        return NoticeRuleChanged(rule=rule_view(self._rules.of(rule)), revision=self._state.revision)


def _given(changes: NoticeRuleChanges) -> dict[str, Any]:
    """By the names of the record."""
    names = ("is_on", "threshold", "floor", "for_s", "severity")
    given = {name: value for name in names if (value := getattr(changes, name)) is not None}
    for name, most in _MOST.items():
        if name in given and not 0 <= given[name] <= most:
            raise InvalidRequest(f"{name}: 0 to {most}", field=name)
    if given.get("floor") and changes.rule is not AlertRule.FAILURE_RATE:
        raise InvalidRequest("floor: of failure_rate alone", field="floor")
    return given
