"""Extensions: whether a running session may get a later time limit.

It may if and only if no other user's session and no booking starts later for it. Two pairs of passes show that, each
with and without the extension: under the policy as it is, and with a reservation for every waiting session, see
`conservative_backfill`. Sessions that wait for the end of this one, or for a quota that it fills, would start later in
any case. Sessions of its owner do not count: otherwise the next step of a pipeline would prevent an extension of
the current one.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from aliquot.core.model.plan import ExtensionDecision, Plan
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import RunningRow, Snapshot
from aliquot.core.prediction import duration_text
from aliquot.core.quota import quota_ids_for
from aliquot.core.scheduler.booking_calendar import uses
from aliquot.core.scheduler.bookings import bookings_after, window_text
from aliquot.core.scheduler.reason_text import moment_text
from aliquot_schema.bookings import BookingState
from aliquot_schema.ids import SessionId, UserId, natural_key
from aliquot_schema.policies import Backfill
from aliquot_schema.reasons import Reason, Verdict

RESERVED_MAX: Final = 500
"""Waiting sessions that are compared by their reservations; those behind them by whether they start now."""
DECIDED_MAX: Final = 4
"""Extensions decided in one pass; the others are decided in the next one."""
NAMED_MAX: Final = 3

Decide = Callable[[Snapshot, Policy], Plan]


class DelayedSession(Struct, frozen=True, kw_only=True):
    """A waiting session that would start later."""

    session_id: SessionId
    by_us: int | None
    """None = its start is not known then."""


def decided_extensions(
    snapshot: Snapshot, policy: Policy, *, now_us: int, run: Decide
) -> tuple[Snapshot, tuple[ExtensionDecision, ...]]:
    """The snapshot with the extensions that are granted, and the decisions.

    Args:
        run: one pass on a snapshot without open requests.
    """
    asking = sorted((row for row in snapshot.running if row.asks_limit_us is not None), key=lambda row: row.session_id)
    state = replace(snapshot, running=tuple(replace(row, asks_limit_us=None) for row in snapshot.running))
    decisions = []
    for row in asking[:DECIDED_MAX]:
        assert row.asks_limit_us is not None
        longer = extended(state, row.session_id, limit_us=row.asks_limit_us)
        refusal = _refusal(state, longer, replace(row, asks_limit_us=None), policy, now_us=now_us, run=run)
        decisions.append(ExtensionDecision(session_id=row.session_id, limit_us=row.asks_limit_us, refusal=refusal))
        state = state if refusal is not None else longer
    return state, tuple(decisions)


def extended(snapshot: Snapshot, session_id: SessionId, *, limit_us: int) -> Snapshot:
    """The snapshot with a later time limit of one running session."""
    rows = (
        replace(row, limit_us=limit_us, ends_us=max(row.ends_us, limit_us)) if row.session_id == session_id else row
        for row in snapshot.running
    )
    return replace(snapshot, running=tuple(rows))


def delays(before: Mapping[SessionId, int], after: Mapping[SessionId, int]) -> Iterator[DelayedSession]:
    """Sessions that start later in the second plan, or of which it knows no start."""
    for name, at_us in sorted(before.items()):
        then_us = after.get(name)
        if then_us is None or then_us > at_us:
            yield DelayedSession(session_id=name, by_us=None if then_us is None else then_us - at_us)


def reserving_all(policy: Policy) -> Policy:
    """The policy with a reservation for every waiting session, up to `RESERVED_MAX`."""
    return replace(policy, backfill=Backfill.CONSERVATIVE, backfill_depth=max(policy.backfill_depth, RESERVED_MAX))


def _refusal(
    state: Snapshot, longer: Snapshot, row: RunningRow, policy: Policy, *, now_us: int, run: Decide
) -> str | None:
    """Who would start later, as a sentence; None if no other user's session and no booking would."""
    if row.is_leaving or row.limit_us is None:
        return f"Session {row.session_id} is ending"
    limit_us = next(one.limit_us for one in longer.running if one.session_id == row.session_id)
    assert limit_us is not None
    leaving = _leaving_node(longer, row, limit_us=limit_us)
    if leaving is not None:
        return leaving
    later: list[DelayedSession] = []
    for rules in (policy, reserving_all(policy)):
        before, after = run(state, rules), run(longer, rules)
        booked = _booked(state, longer, before, after, row, limit_us=limit_us, now_us=now_us)
        if booked is not None:
            return booked
        later += delays(before.starts_us(now_us=now_us), after.starts_us(now_us=now_us))
        evicted = {one.session_id for one in before.evictions}
        later += [
            DelayedSession(session_id=one.session_id, by_us=None)
            for one in after.evictions
            if one.session_id not in evicted
        ]
        later += [DelayedSession(session_id=name, by_us=None) for name in _waiting_for(state, row, before.verdicts)]
    owners = {one.session_id: one.owner for one in state.queue}
    owners |= {one.session_id: one.owner for one in state.running}
    others = [one for one in later if owners.get(one.session_id) != row.owner]
    return _sentence(others, owners) if others else None


def _leaving_node(snapshot: Snapshot, row: RunningRow, *, limit_us: int) -> str | None:
    """Why its node cannot keep it until then; None if it can."""
    if row.is_preemptible:
        return None
    mine = {kernel.agent_id for kernel in row.kernels}
    for agent in sorted(snapshot.agents, key=lambda one: natural_key(one.id)):
        if agent.id in mine and agent.until_us is not None and agent.until_us < limit_us:
            return f"Node {agent.node_id} leaves at {moment_text(agent.until_us)}"
    return None


def _booked(
    state: Snapshot, longer: Snapshot, before: Plan, after: Plan, row: RunningRow, *, limit_us: int, now_us: int
) -> str | None:
    """Which booking it would be in the way of; None if none."""
    kept = {one.id: one for one in bookings_after(longer, after, now_us=now_us) if one.state is BookingState.BOOKED}
    leaves = row.is_preemptible or row.booking is not None
    for one in sorted(bookings_after(state, before, now_us=now_us), key=lambda one: (one.starts_us, one.id)):
        if one.state is not BookingState.BOOKED:
            continue
        meets = uses(row, devices=frozenset(one.devices), nodes=frozenset(one.nodes))
        is_in_the_way = not leaves and meets and one.overlaps(row.limit_us or now_us, limit_us)
        if is_in_the_way or one.id not in kept:
            return f"{one.owner} has booked its devices {window_text(one)} ({one.name})"
    return None


def _waiting_for(snapshot: Snapshot, row: RunningRow, verdicts: Mapping[SessionId, Verdict]) -> Iterator[SessionId]:
    """Sessions that wait for the end of this one: by a dependency, their array's limit, or a quota."""
    quotas = set(quota_ids_for(row.owner, row.project))
    for waiting in snapshot.queue:
        verdict = verdicts.get(waiting.session_id)
        match None if verdict is None else verdict.reason:
            case Reason.DEPENDENCY:
                waits = any(link.session_id == row.session_id for link in waiting.depends_on)
            case Reason.ARRAY_LIMIT:
                waits = waiting.session_id == row.array_id
            case Reason.QUOTA if verdict is not None and verdict.evidence.until_us is None:
                waits = verdict.evidence.quota in quotas
            case _:
                waits = False
        if waits:
            yield waiting.session_id


def _sentence(later: Iterable[DelayedSession], owners: Mapping[SessionId, UserId]) -> str:
    longest: dict[SessionId, int | None] = {}
    for one in later:
        known = longest.get(one.session_id, 0)
        longest[one.session_id] = None if known is None or one.by_us is None else max(known, one.by_us)
    named = [_named(name, owners.get(name, ""), by_us) for name, by_us in list(longest.items())[:NAMED_MAX]]
    more = f" and {len(longest) - NAMED_MAX} more" if len(longest) > NAMED_MAX else ""
    count = "1 session" if len(longest) == 1 else f"{len(longest)} sessions"
    return f"{count} would start later: {', '.join(named)}{more}"


def _named(name: SessionId, owner: str, by_us: int | None) -> str:
    whose = f" of {owner}" if owner else ""
    return f"{name}{whose}" + ("" if by_us is None else f" by {duration_text(max(by_us // 1000, 1000))}")
