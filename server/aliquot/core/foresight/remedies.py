"""Remedies: the changes that let a waiting session start, each proved by `decide` on the changed snapshot.

Of each kind the cheapest change is returned. Nothing is estimated: a change is a remedy only if the same function that
the scheduler runs starts the session, or preempts for it. Kinds that the caller cannot apply (waiting, preemption of
another session, a raised quota) are proved in the same way.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from aliquot.core.foresight.changes import ALL_MEANS, STEPS_MAX, AllowedChanges, ProposedChange, WaitingSession, applied
from aliquot.core.model.plan import KernelPlacement, Plan
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import PendingRow, RunningRow, Snapshot
from aliquot.core.prediction import RunTimes, Workload
from aliquot.core.quota import quota_ids_for
from aliquot.core.scheduler.booking_calendar import uses
from aliquot.core.scheduler.cache import PassCache
from aliquot.core.scheduler.decide import decide
from aliquot.core.scheduler.free_capacity import FreeCapacity
from aliquot.core.scheduler.ordering import PREEMPTIVE
from aliquot.core.scheduler.placer import Placer
from aliquot_schema.bookings import BookedDevice
from aliquot_schema.ids import SessionId
from aliquot_schema.policies import PreemptScope
from aliquot_schema.reasons import Reason, RemedyKind
from aliquot_schema.resources.slots import is_accelerator
from aliquot_schema.states import SessionState

TRIES_MAX: Final = 200
"""Passes for one session, at most."""
WAIT_TRIES_MAX: Final = 4
"""Passes at later and later times, when many sessions run."""
FORECAST_MAX: Final = 12
"""Changes of one session that are forecast."""
QUOTAS_MAX: Final = 3
"""A session stands under at most three quotas: its user's, its project's and the cluster's."""


class Delay(Struct, frozen=True, kw_only=True):
    """A session that would start later. None = unknown."""

    session_id: SessionId
    before_us: int | None
    """Its start without the change: now, or as reserved."""
    after_us: int | None


class Remedy(Struct, frozen=True, kw_only=True):
    """A change with which the session starts."""

    change: ProposedChange
    starts_us: int
    """The time of the pass, or when the sessions preempted for it have ended at the latest."""
    kernels: tuple[KernelPlacement, ...]
    """Where it starts; empty while others are preempted for it."""
    delays: tuple[Delay, ...] = ()
    preempts: tuple[SessionId, ...] = ()
    """Sessions that the scheduler would preempt for it."""


class Remedies:
    """The search for one waiting session.

    Args:
        scene: the session, and the snapshot that it waits in.
        seed: of the passes.
        cache: of earlier passes over the same agents.
    """

    def __init__(self, scene: WaitingSession, *, seed: int = 0, cache: PassCache | None = None) -> None:
        self.scene: Final = scene
        self._seed = seed
        self._cache = PassCache() if cache is None else cache
        self._tries = 0
        self._own = tuple(scene.by_kind())

    def workloads(self) -> set[Workload]:
        """What the run times of the session as it would be are looked up by, beyond those of the snapshot."""
        found = {change.row.workload for changes in self._own for change in changes if change.row.workload is not None}
        return found - set(self.scene.snapshot.run_times)

    def found(self, run_times: Mapping[Workload, RunTimes]) -> tuple[Remedy, ...]:
        """The cheapest remedy of each kind, in the order of `RemedyKind`; none if it starts anyway.

        Args:
            run_times: of `workloads()`; missing ones are unknown.
        """
        if starts(self.scene.plan, self.scene.row.session_id):
            return ()
        known = {**self.scene.snapshot.run_times, **run_times}
        remedies = [self._first(changes, known) for changes in self._own]
        remedies += [self._soonest(known), self._first(self.scene.victims(), known), self._raised(known)]
        return tuple(remedy for remedy in remedies if remedy is not None)

    def without_effect_now(self, remedies: Iterable[Remedy]) -> tuple[ProposedChange, ...]:
        """Changes that the caller can make and that do not let it start now, but may let it start earlier.

        Of each kind the cheapest one, and one halfway to the dearest. A waiting session alone has some.

        Args:
            remedies: those found; their kinds are left out.
        """
        kinds = {remedy.change.kind for remedy in remedies} | {RemedyKind.RELEASE}
        if self.scene.row.state is not SessionState.QUEUED or starts(self.scene.plan, self.scene.row.session_id):
            return ()
        return tuple(
            changes[place]
            for changes in self._own
            if changes and changes[0].kind not in kinds
            for place in sorted({0, len(changes) // 2})
        )[:FORECAST_MAX]

    def _first(self, changes: Iterable[ProposedChange], known: Mapping[Workload, RunTimes]) -> Remedy | None:
        for change in changes:
            remedy = self._proved(change, known)
            if remedy is not None:
                return remedy
        return None

    def _soonest(self, known: Mapping[Workload, RunTimes]) -> Remedy | None:
        """The earliest end after which it starts.

        While there are few ends all are tried. Of many, the search begins where the session would fit alone, and ends
        after `WAIT_TRIES_MAX` passes in growing strides: those in front of it then take what becomes free.
        """
        ends_us, ended = self.scene.ends_us, self.scene.once_ended
        if len(ends_us) <= STEPS_MAX:
            return self._first(map(ended, ends_us), known)
        low = bisect_left(ends_us, True, key=lambda at_us: self._fits(ended(at_us)))
        tries, stride, high, best = 0, 1, low, None
        while best is None and low < len(ends_us) and tries < WAIT_TRIES_MAX:
            high = min(low + stride - 1, len(ends_us) - 1)
            best, tries = self._proved(ended(ends_us[high]), known), tries + 1
            if best is None:
                low, stride = high + 1, stride * 2
        while best is not None and low < high:
            middle = (low + high) // 2
            earlier = self._proved(ended(ends_us[middle]), known)
            low, high, best = (middle + 1, high, best) if earlier is None else (low, middle, earlier)
        return best

    def _raised(self, known: Mapping[Workload, RunTimes]) -> Remedy | None:
        """The quotas in its way raised, one after the other."""
        scene, change, plan = self.scene, None, self.scene.plan
        for _ in range(QUOTAS_MAX):
            verdict = plan.verdicts.get(scene.row.session_id)
            if verdict is None or verdict.reason is not Reason.QUOTA or verdict.evidence.quota is None:
                return None
            change = scene.raised(change, scene.snapshot.quotas[verdict.evidence.quota])
            plan = self._decided(change, known)
            remedy = _remedy(change, plan, scene)
            if remedy is not None:
                return remedy
        return None

    def _proved(self, change: ProposedChange, known: Mapping[Workload, RunTimes]) -> Remedy | None:
        """The remedy that a change is; None if the session still waits.

        Free capacity only shrinks during a pass, so a session that does not fit on all of it is not tried, unless it
        may preempt. Reasons and reservations are computed for those that start.
        """
        if self._tries >= TRIES_MAX or not (self._may_preempt or self._fits(change)):
            return None
        self._tries += 1
        if not self._may_preempt:
            plan = decided(change, self.scene, run_times=known, seed=self._seed, cache=self._cache, explains=False)
            if not starts(plan, self.scene.row.session_id):
                return None
        return _remedy(change, self._decided(change, known), self.scene)

    def _fits(self, change: ProposedChange) -> bool:
        """Whether the session fits on all that is free with a change."""
        snapshot, policy = applied(change, self.scene, cache=self._cache), self.scene.policy
        capacity = FreeCapacity(snapshot, policy, cache=self._cache)
        placer = Placer(snapshot, policy, capacity=capacity, seed=self._seed)
        return len(placer.place(change.row)) == change.row.cluster_size

    @cached_property
    def _may_preempt(self) -> bool:
        """Whether the session, with some change, may preempt others."""
        policy, quotas = self.scene.policy, self.scene.snapshot.quotas
        if self.scene.row.booking is not None:
            return True
        by_order = policy.order in ("priority", *PREEMPTIVE)
        owns = any(quota.own_slots for quota in quotas.values())
        return policy.preemption.preempt is not PreemptScope.NONE and (by_order or owns)

    def _decided(self, change: ProposedChange, known: Mapping[Workload, RunTimes]) -> Plan:
        return decided(change, self.scene, run_times=known, seed=self._seed, cache=self._cache)


def decided(
    change: ProposedChange,
    scene: WaitingSession,
    *,
    run_times: Mapping[Workload, RunTimes],
    seed: int,
    cache: PassCache | None = None,
    explains: bool = True,
) -> Plan:
    """The decision with a change, at its time if it has one; see `decide`."""
    snapshot = replace(applied(change, scene, cache=cache), run_times=run_times)
    now_us = scene.now_us if change.at_us is None else change.at_us
    return decide(snapshot, scene.policy, now_us=now_us, seed=seed, known=cache, explains=explains)


def remedies(
    row: PendingRow,
    snapshot: Snapshot,
    policy: Policy,
    *,
    now_us: int,
    seed: int = 0,
    means: AllowedChanges = ALL_MEANS,
    run_times: Mapping[Workload, RunTimes] | None = None,
) -> tuple[Remedy, ...]:
    """The cheapest remedy of each kind for a waiting row of a snapshot; see `Remedies`."""
    cache = PassCache()
    plan = decide(snapshot, policy, now_us=now_us, seed=seed, known=cache)
    scene = WaitingSession(row=row, snapshot=snapshot, policy=policy, now_us=now_us, plan=plan, means=means)
    return Remedies(scene, seed=seed, cache=cache).found(run_times or {})


def starts(plan: Plan, name: SessionId) -> bool:
    """Whether a plan starts a session, or a task of it."""
    return any(placement.session_id == name for placement in plan.placements)


def delays(before: Plan, after: Plan, *, now_us: int, apart: Iterable[SessionId] = ()) -> tuple[Delay, ...]:
    """Sessions that a second plan starts, or promises to start, later than the first; in the first one's order.

    Args:
        apart: sessions that are not compared.
    """
    earlier, later = before.starts_us(now_us=now_us), after.starts_us(now_us=now_us)
    skipped = set(apart)
    return tuple(
        Delay(session_id=name, before_us=at_us, after_us=later.get(name))
        for name, at_us in earlier.items()
        if name not in skipped and (name not in later or later[name] > at_us)
    )


def _remedy(change: ProposedChange, plan: Plan, scene: WaitingSession) -> Remedy | None:
    """The remedy that a change is, by the plan with it; None if the session still waits, or starts no sooner."""
    name, now_us = scene.row.session_id, scene.now_us if change.at_us is None else change.at_us
    kernels = next((placement.kernels for placement in plan.placements if placement.session_id == name), ())
    starts_us: int | None = now_us if kernels else None
    preempts: Sequence[SessionId] = ()
    verdict = plan.verdicts.get(name)
    if starts_us is None and verdict is not None and verdict.reason is Reason.MAKING_ROOM:
        preempts = tuple(eviction.session_id for eviction in plan.evictions if eviction.by_session == name)
        starts_us = verdict.evidence.until_us
    known = scene.plan.verdicts.get(name)
    anyway_us = known.evidence.until_us if known is not None and known.reason is Reason.MAKING_ROOM else None
    if starts_us is None or (anyway_us is not None and starts_us >= anyway_us):
        return None
    later = () if change.kind is RemedyKind.WAIT else delays(scene.plan, plan, now_us=now_us, apart=[name])
    return Remedy(change=change, starts_us=starts_us, kernels=kernels, delays=later, preempts=tuple(preempts))


def awaited(remedy: Remedy, scene: WaitingSession) -> tuple[RunningRow, ...]:
    """Of the sessions that have ended by the time of a remedy, those that the session waits for: under a full quota
    those that count in it, else those that hold the GPUs that it gets. All of them where none is known."""
    gone = remedy.change.gone
    verdict = scene.plan.verdicts.get(scene.row.session_id)
    quota = None if verdict is None else verdict.evidence.quota
    if quota is not None:
        needed = [held for held in gone if quota in quota_ids_for(held.owner, held.project)]
    else:
        gpus = frozenset(
            BookedDevice(kernel.node_id, device_id)
            for kernel in remedy.kernels
            for slot, given in kernel.spec.items()
            if is_accelerator(slot)
            for device_id in given
        )
        needed = [held for held in gone if uses(held, devices=gpus)]
    return tuple(needed) or gone
