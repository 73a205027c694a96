"""The decision function: one pass from a snapshot to a plan. Filter, order, place with backfill, explain.

Three rules reorder the queue whatever the order policy says:

- A session that would exceed the policy's `wait_bound` is promoted, see `wait_bounds`.
- A preempted session is queued right behind the session it was preempted for.
- Immediate requests (external allocations) never queue: they are tried last and fail if they do not fit.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

import numpy as np
from msgspec.structs import replace

from aliquot.core.billing.budgets import Budgets, SpentBudget, with_lowered
from aliquot.core.fairshare import month_after, month_of, starts_us
from aliquot.core.model.plan import BacklogPeak, ExtensionDecision, Placement, Plan
from aliquot.core.model.policy import Policy
from aliquot.core.model.queue import IntArray, Queue
from aliquot.core.model.snapshot import PendingRow, Snapshot
from aliquot.core.scheduler.backfill import PassContext
from aliquot.core.scheduler.backlog import age_scale
from aliquot.core.scheduler.booking_calendar import BookingCalendar
from aliquot.core.scheduler.bookings import decided_bookings
from aliquot.core.scheduler.cache import PassCache
from aliquot.core.scheduler.eligibility import EligibleQueue, filter_eligible
from aliquot.core.scheduler.expected_ends import estimates_ms
from aliquot.core.scheduler.extensions import decided_extensions
from aliquot.core.scheduler.idle_evictions import with_idle_evictions
from aliquot.core.scheduler.ordering import OrderInputs, in_order, order_named
from aliquot.core.scheduler.scheduling_pass import SchedulingPass
from aliquot.core.scheduler.temporary_agents import TemporaryAgents
from aliquot.core.scheduler.wait_bounds import ROUNDS_MAX, WaitBound, in_front
from aliquot_schema.bookings import Booking
from aliquot_schema.ids import PoolId, SessionId
from aliquot_schema.policies import Backfill
from aliquot_schema.reasons import Reason, Verdict
from aliquot_schema.sessions import Failure

V = TypeVar("V")
NOT_PLACED: Final = Failure(
    code="not_placed", message="it could not be placed immediately, and external allocations are not queued"
)


def decide(
    snapshot: Snapshot,
    policy: Policy,
    *,
    now_us: int,
    seed: int,
    known: PassCache | None = None,
    explains: bool = True,
) -> Plan:
    """Decide which sessions start where, and why the others wait.

    Args:
        snapshot: the state; nothing in it is changed.
        now_us: microseconds UTC; must not decrease from pass to pass.
        seed: of the random placement strategy.
        known: caches of earlier passes; they change how long the pass takes, not the plan.
        explains: False leaves out the reservation and the verdicts of eligible sessions; placements are the same.
    Returns:
        The same plan for the same input, whatever the order of its collections.
    Raises:
        InvalidRequest: the policy names an unknown order or placement strategy.
    """
    extensions: tuple[ExtensionDecision, ...] = ()
    cache = PassCache() if known is None else known
    if cache.traits(snapshot.running).asks_more_time:

        def run(state: Snapshot, rules: Policy) -> Plan:
            return decide(state, rules, now_us=now_us, seed=seed)

        snapshot, extensions = decided_extensions(snapshot, policy, now_us=now_us, run=run)
    lowered = Budgets(snapshot, prices=policy.prices, now_us=now_us).lowered() if policy.prices.rates else []
    ordered = with_lowered(snapshot, [row for row, _ in lowered]) if lowered else snapshot
    plan = _decided(ordered, policy, now_us=now_us, seed=seed, cache=cache, explains=explains)
    if lowered:
        plan = _until_next_month(_naming_budgets(plan, lowered), now_us=now_us)
    if snapshot.idle and explains:

        def run_without(state: Snapshot, rules: Policy) -> Plan:
            return _decided(state, rules, now_us=now_us, seed=seed, cache=PassCache(), explains=False)

        plan = with_idle_evictions(plan, ordered, policy, now_us=now_us, run=run_without)
    return replace(plan, extensions=extensions) if extensions else plan


def _naming_budgets(plan: Plan, lowered: Iterable[tuple[PendingRow, SpentBudget]]) -> Plan:
    """The plan with the budgets that lowered priorities, in the verdicts of their sessions."""
    verdicts = {row.session_id: spent for row, spent in lowered if row.session_id in plan.verdicts}
    named = {
        name: verdicts[name].named_in(verdict) if name in verdicts else verdict
        for name, verdict in plan.verdicts.items()
    }
    return replace(plan, verdicts=named)


def _until_next_month(plan: Plan, *, now_us: int) -> Plan:
    """The plan with a pass at the latest when the next month begins, which gives back lowered priorities."""
    renews_us = starts_us(month_after(month_of(now_us)))
    return replace(plan, wake_at_us=renews_us if plan.wake_at_us is None else min(plan.wake_at_us, renews_us))


def _decided(snapshot: Snapshot, policy: Policy, *, now_us: int, seed: int, cache: PassCache, explains: bool) -> Plan:
    """The plan of a snapshot whose running sessions ask for nothing."""
    queue, temporary = Queue.of(snapshot.queue), None
    if cache.agent_index(snapshot.agents).has_temporary:
        temporary = TemporaryAgents(snapshot.agents, rows=cache.temporary_rows)
        queue = temporary.queue(queue, now_us=now_us)
    bookings, booking_decisions = decided_bookings(snapshot, now_us=now_us) if snapshot.bookings else ((), ())
    eligible = filter_eligible(snapshot, policy, queue=queue, now_us=now_us, cache=cache.feasibility, bookings=bookings)
    inputs, backlogs = order_inputs(snapshot, policy, queue=queue, ready=eligible.ready, now_us=now_us, cache=cache)
    order = in_order(order_named(policy.order), inputs)
    context = PassContext(
        snapshot=snapshot,
        policy=policy,
        now_us=now_us,
        seed=seed,
        cache=cache,
        temporary=temporary,
        bookings=bookings,
        calendar=_calendar(bookings, snapshot, policy, eligible, queue=queue, now_us=now_us),
    )
    calendar_us = None if context.calendar is None else context.calendar.wake_at_us()
    run, line = _placed(order, eligible, queue=queue, context=context)
    leaves_us = None
    if temporary is not None:
        # A session that holds back others may be unable to start from then on.
        leaves_us = temporary.leaves_us((queue[position] for position in line.tolist()), now_us=now_us)
    verdicts: Mapping[SessionId, Verdict] = run.verdicts(line) if explains else {}
    grows_at_us = run.grow(line)
    reservations = run.reservations() if explains or policy.backfill is Backfill.CONSERVATIVE else ()
    if ineligible := _ineligible_verdicts(eligible, queue, order):
        verdicts = {**verdicts, **ineligible}
    failures = eligible.failures | _rejected(eligible.immediate, run.placements)
    plan = Plan(
        placements=tuple(run.placements),
        failures={session_id: failures[session_id] for session_id in sorted(failures)},
        verdicts=_queued_only(verdicts, eligible.immediate),
        wake_at_us=_wake_at_us(eligible, run.skipped, grows_at_us, run.claims_again_us, calendar_us, leaves_us),
        reservation=reservations[0] if explains and reservations else None,
        promises=reservations if policy.backfill is Backfill.CONSERVATIVE or len(reservations) > 1 else (),
        evictions=run.evictions,
        fallbacks=_due_fallbacks(eligible, run),
        backlogs=backlogs,
        bookings=booking_decisions,
    )
    run.keep_cache()
    return plan


def order_inputs(
    snapshot: Snapshot, policy: Policy, *, queue: Queue, ready: IntArray, now_us: int, cache: PassCache
) -> tuple[OrderInputs, dict[PoolId, BacklogPeak]]:
    """What the order is computed from, and the new peaks of the backlogs.

    Args:
        ready: [rows] 1 = eligible in this pass.
    """
    index = cache.agent_index(snapshot.agents)
    expected = estimates_ms(queue, snapshot.run_times)
    scale, backlogs = age_scale(
        snapshot,
        queue,
        estimates_ms=expected,
        ready=ready,
        running=cache.work(snapshot.running, index=index),
        index=index,
        now_us=now_us,
    )
    inputs = OrderInputs(
        queue=queue,
        usage=snapshot.usage,
        weights=policy.weights,
        now_us=now_us,
        quotas=snapshot.quotas,
        estimates_ms=expected,
        scale=scale,
    )
    return inputs, backlogs


def _placed(
    order: IntArray, eligible: EligibleQueue, *, queue: Queue, context: PassContext
) -> tuple[SchedulingPass, IntArray]:
    """The pass with everything placed that may start, and its line."""
    bound = _wait_bound(eligible, queue=queue, context=context)
    promoted = [] if bound is None else bound.promoted()
    rounds = ROUNDS_MAX
    while True:
        line = order[eligible.ready[order] == 1]
        if promoted:
            line = in_front(line, promoted)
        line = _immediate_last(behind_preemptors(line, eligible.preempted_for, queue=queue), eligible.immediate)
        run = SchedulingPass(queue, context)
        run.place_all(line)
        more = [] if bound is None else bound.promoted(run.starts)
        rounds -= 1
        if not rounds or set(more) <= set(promoted):
            return run, line
        promoted = sorted({*promoted, *more})


def _calendar(
    bookings: Sequence[Booking],
    snapshot: Snapshot,
    policy: Policy,
    eligible: EligibleQueue,
    *,
    queue: Queue,
    now_us: int,
) -> BookingCalendar | None:
    if not bookings:
        return None
    awaited = [row.booking for row, is_ready in zip(queue, eligible.ready.tolist(), strict=True) if is_ready]
    return BookingCalendar(
        bookings,
        agents=snapshot.agents,
        awaited=[name for name in awaited if name is not None],
        now_us=now_us,
        grace_ms=policy.preemption.grace_ms,
    )


def _wait_bound(eligible: EligibleQueue, *, queue: Queue, context: PassContext) -> WaitBound | None:
    if not context.policy.weights.wait_bound_ms:
        return None
    snapshot, cache = context.snapshot, context.cache
    index = cache.agent_index(snapshot.agents)
    ready = eligible.ready.copy()
    ready[list(eligible.immediate.values())] = 0
    return WaitBound(
        queue,
        context.policy,
        ready=ready,
        running=snapshot.running,
        work=cache.work(snapshot.running, index=index),
        index=index,
        now_us=context.now_us,
    )


def behind_preemptors(line: IntArray, preempted_for: Mapping[int, SessionId], *, queue: Queue) -> IntArray:
    """The line with each preempted session right behind the one it was preempted for.

    Otherwise an old session, or one whose user has used little, would take back the devices it was just stopped for.

    Args:
        line: positions in the queue, the next one first.
        preempted_for: by position of a preempted row, the session that preempted it.
    """
    if not preempted_for:
        return line
    positions = line.tolist()
    wanted = frozenset(preempted_for.values())
    preemptors = {name: position for position in positions if (name := queue[position].session_id) in wanted}
    behind: dict[int, list[int]] = defaultdict(list)
    placed: dict[int, None] = {}
    for position in positions:
        first = preemptors.get(preempted_for[position]) if position in preempted_for else None
        if first is not None and first not in placed:
            behind[first].append(position)
            continue
        following = [position]
        while following:
            placed[following[-1]] = None
            following.extend(reversed(behind.pop(following.pop(), [])))
    rest = [position for position in positions if position not in placed]  # they were preempted for each other
    return np.array([*placed, *rest], dtype=np.int64)


def _immediate_last(line: IntArray, immediate: Mapping[SessionId, int]) -> IntArray:
    """The line with immediate sessions at its end, in their order."""
    if not immediate:
        return line
    is_immediate = np.isin(line, np.fromiter(immediate.values(), dtype=np.int64))
    return np.concatenate([line[~is_immediate], line[is_immediate]])


def _rejected(immediate: Iterable[SessionId], placements: Iterable[Placement]) -> dict[SessionId, Failure]:
    """Failures of immediate sessions that were not placed."""
    placed = {placement.session_id for placement in placements}
    return {name: NOT_PLACED for name in sorted(immediate) if name not in placed}


def _ineligible_verdicts(eligible: EligibleQueue, queue: Queue, order: IntArray) -> dict[SessionId, Verdict]:
    """Verdicts of ineligible sessions, in queue order."""
    if not eligible.verdicts:
        return {}
    names = [queue[position].session_id for position in order[eligible.ready[order] == 0].tolist()]
    return {name: eligible.verdicts[name] for name in names if name in eligible.verdicts}


def _queued_only(found: Mapping[SessionId, V], immediate: Mapping[SessionId, int]) -> Mapping[SessionId, V]:
    """The entries of sessions that may queue."""
    return {name: value for name, value in found.items() if name not in immediate} if immediate else found


def _wake_at_us(eligible: EligibleQueue, waiting: Mapping[SessionId, Verdict], *others_us: int | None) -> int | None:
    """The earliest known time at which a session becomes eligible, a quota renews, or another part of the pass wants
    to look again; None without one."""
    opens = [verdict.evidence.until_us for verdict in waiting.values() if verdict.reason is Reason.QUOTA]
    known = [at_us for at_us in (eligible.wake_at_us, *others_us, *opens) if at_us is not None]
    return min(known, default=None)


def _due_fallbacks(eligible: EligibleQueue, run: SchedulingPass) -> dict[SessionId, int]:
    """Next fallback levels; a session that starts now keeps its request."""
    placed = {placement.session_id for placement in run.placements}
    return {name: eligible.fallbacks[name] for name in sorted(eligible.fallbacks) if name not in placed}
