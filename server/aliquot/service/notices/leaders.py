"""Who leads, as something to alert of: the server that leads knows it, and nothing in the state does."""

from collections.abc import Iterator, Mapping

from aliquot.service.notices.conditions import Condition, Look
from aliquot.service.notices.terms import SECOND_US
from aliquot.service.state import State
from aliquot_schema.notices import AlertRule, NoticeRule


def leader_looks(epoch: int, *, began_us: int, address: str, is_shared: bool) -> Mapping[AlertRule, Look]:
    """Of the term that has begun. That nobody led is over by now, whoever said so."""

    def changed(_state: State, rule: NoticeRule, now_us: int) -> Iterator[Condition]:
        since_us = now_us - began_us
        if is_shared and epoch > 1 and since_us < rule.threshold * SECOND_US:
            words = f"{address or 'another server'} leads, in epoch {epoch}"
            yield Condition(subject=f"epoch {epoch}", words=words)

    def nobody(_state: State, _rule: NoticeRule, _now_us: int) -> Iterator[Condition]:
        yield from ()

    return {AlertRule.LEADER_CHANGED: changed, AlertRule.NO_LEADER: nobody}
