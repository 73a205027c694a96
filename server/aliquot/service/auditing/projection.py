"""Projection of the record: what is read of it, as operators see it."""

import json
from collections.abc import Mapping
from typing import Any, Final

from aliquot.service.auditing.ports import Change, Holding
from aliquot.service.ledger.entries import PassEntry
from aliquot.service.projection_terms import moment, moment_or_none
from aliquot_schema.audit_views import ChangedFieldView, ChangeView, HoldingView, LedgerPassView
from aliquot_schema.ids import SlotName
from aliquot_schema.slots import format_amount

HIDDEN: Final = "***"


def change_view(change: Change, *, shows_commands: bool) -> ChangeView:
    """Without `shows_commands` what a session runs is left out, and where somebody has his mail."""
    before = None if change.before is None else _shown(change.before, shows_commands=shows_commands)
    after = _shown(change.after, shows_commands=shows_commands)
    fields = [
        ChangedFieldView(name=name, before=None if before is None else _text(before.get(name)), after=_text(value))
        for name, value in after.items()
    ]
    return ChangeView(
        number=change.number,
        at=moment(change.at_us),
        kind=change.kind,
        entity_id=change.entity_id,
        actor=change.actor,
        request_id=change.request_id,
        pass_number=change.pass_number,
        fields=tuple(fields),
    )


def holding_view(held: Holding) -> HoldingView:
    """As it is in the table, with times and amounts for people."""
    return HoldingView(
        device_id=held.device_id,
        slot=held.slot,
        amount=format_amount(SlotName(held.slot), held.amount),
        kind=held.kind,
        lease_id=held.lease_id,
        agent_id=held.agent_id,
        session_id=held.session_id,
        user=held.owner,
        since=moment(held.from_us),
        until=moment_or_none(held.ended_us),
        evidence=held.evidence,
        pass_number=held.pass_number,
        preempted_at=moment_or_none(held.preempted_us),
        preempted_by=held.preempted_by,
    )


def pass_view(entry: PassEntry) -> LedgerPassView:
    """What it decided, by session."""
    return LedgerPassView(
        number=entry.number,
        at=moment(entry.now_us),
        event_number=entry.revision,
        epoch=entry.epoch,
        code_version=entry.code_version,
        lost_before=entry.lost,
        placed=tuple(placement.session_id for placement in entry.plan.placements),
        preempted=tuple(eviction.session_id for eviction in entry.plan.evictions),
        failed=tuple(entry.plan.failures),
    )


def _shown(fields: Mapping[str, Any], *, shows_commands: bool) -> Mapping[str, Any]:
    if shows_commands:
        return fields
    hidden: dict[str, Any] = {} if fields.get("email") is None else {"email": HIDDEN}
    spec = fields.get("spec")
    if isinstance(spec, dict) and "argv" in spec:
        hidden["spec"] = {**spec, "argv": HIDDEN}
    return {**fields, **hidden}


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
