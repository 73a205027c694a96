"""Changes: possible changes for one waiting session, and the snapshot with each of them.

A change is applied to a snapshot, never to the state. Within a kind, the changes are listed from the cheapest for the
session's owner to the dearest: the longest time limit first, the most GPUs first, the earliest end first.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from aliquot.core.allocation.options import is_of_model
from aliquot.core.billing.budgets import Budgets
from aliquot.core.model.plan import Plan
from aliquot.core.model.policy import Policy
from aliquot.core.model.queue import Queue
from aliquot.core.model.snapshot import (
    HoldersOn,
    PendingRow,
    PlacementConstraints,
    RunningRow,
    Snapshot,
    milli_of,
    request_milli,
)
from aliquot.core.quota import HOUR, counted, counted_as, counted_in, limits, quota_ids_for
from aliquot.core.scheduler.backfill import used_without
from aliquot.core.scheduler.cache import PassCache
from aliquot.core.scheduler.expected_ends import expected_end_us
from aliquot.core.scheduler.free_capacity import FreeCapacity
from aliquot.core.validation.session import PerGpu, amended_amounts
from aliquot_schema.billing import MICROS, Prices
from aliquot_schema.ids import NodeId, PoolId, ProjectId, SessionId, SlotName, natural_key
from aliquot_schema.policies import Pool
from aliquot_schema.quotas import Quota, QuotaScope
from aliquot_schema.reasons import RemedyKind
from aliquot_schema.resources.slots import MILLI, ResourceSlot, SlotAmounts, is_accelerator, is_size, scale_of
from aliquot_schema.sessions import Priority
from aliquot_schema.states import SessionState

MINUTE_MS: Final = 60_000
LIMITS_MS: Final = tuple(
    minutes * MINUTE_MS for minutes in (1440, 720, 480, 360, 240, 180, 120, 60, 45, 30, 20, 15, 10, 5, 2, 1)
)
"""Time limits that are tried besides the gaps before reservations."""
SHARES_MILLI: Final = (750, 500, 250, 100)
STEPS_MAX: Final = 16
"""Counts up to this are tried one by one, larger ones by thirds."""
VICTIMS_MAX: Final = 16
"""Preemptible sessions that are tried."""


class ProposedChange(Struct, frozen=True, kw_only=True):
    """One change, of one kind."""

    kind: RemedyKind
    row: PendingRow
    """The session as it would be."""
    gone: tuple[RunningRow, ...] = ()
    """Sessions that would hold nothing any more."""
    quotas: tuple[Quota, ...] = ()
    """Quotas as they would be."""
    at_us: int | None = None
    """When it would be so, microseconds UTC; None = now."""


class AllowedChanges(Struct, frozen=True, kw_only=True):
    """What the person who asks may do with the session."""

    may_change: bool = True
    may_release: bool = True
    projects: tuple[ProjectId, ...] = ()
    """Projects that they may move it to."""
    priority_max: Priority = Priority.CRITICAL
    """The highest priority that they may give it."""


ALL_MEANS: Final = AllowedChanges()


class WaitingSession(Struct, frozen=True, kw_only=True, dict=True):
    """A waiting session in the snapshot that its changes are tried on."""

    row: PendingRow
    snapshot: Snapshot
    policy: Policy
    now_us: int
    plan: Plan
    """The decision on the snapshot as it is."""
    means: AllowedChanges = ALL_MEANS

    def by_kind(self) -> Iterator[tuple[ProposedChange, ...]]:
        """Changes that the person who asks can make, of each kind the cheapest first; kinds as in `RemedyKind`."""
        if not self.means.may_change:
            return
        row, means = self.row, self.means
        if row.state is SessionState.HELD and means.may_release:
            yield (self._with(RemedyKind.RELEASE, state=SessionState.QUEUED),)
        yield tuple(self._with(RemedyKind.TIME_LIMIT, limit_ms=limit) for limit in self._shorter_limits_ms())
        if not row.is_preemptible:
            yield (self._with(RemedyKind.PREEMPTIBLE, is_preemptible=True),)
        yield tuple(self._models())
        yield tuple(self._pools())
        projects = [project for project in sorted(means.projects, key=natural_key) if project != row.project]
        yield tuple(self._with(RemedyKind.PROJECT, project=project) for project in projects)
        levels = [level for level in Priority if row.priority < level <= means.priority_max]
        yield tuple(self._with(RemedyKind.PRIORITY, priority=level) for level in levels)
        yield tuple(self._fewer_gpus())
        yield tuple(self._shares())
        yield tuple(self._resized(RemedyKind.FEWER_KERNELS, cluster_size=count) for count in fewer(row.cluster_size))

    @cached_property
    def ends_us(self) -> tuple[int, ...]:
        """When running sessions are expected to end, in order."""
        return tuple(sorted(set(self._expected_us)))

    def once_ended(self, at_us: int) -> ProposedChange:
        """Nothing but time: all sessions that are expected to end by then have ended."""
        ending = zip(self.snapshot.running, self._expected_us, strict=True)
        gone = sorted(
            ((end_us, held.session_id, held) for held, end_us in ending if end_us <= at_us), key=itemgetter(0, 1)
        )
        return ProposedChange(kind=RemedyKind.WAIT, row=self.row, gone=tuple(held for _, _, held in gone), at_us=at_us)

    @cached_property
    def _expected_us(self) -> tuple[int, ...]:
        """Expected ends, in the order of the running sessions."""
        return tuple(expected_end_us(held, now_us=self.now_us) for held in self.snapshot.running)

    def victims(self) -> tuple[ProposedChange, ...]:
        """Running sessions that allow preemption, one by one: those that hold least first, then the newest."""
        able = [held for held in self.snapshot.running if held.is_preemptible and not held.is_leaving and held.milli]
        able.sort(key=lambda held: (held.milli, -(held.started_us or self.now_us), held.session_id))
        return tuple(ProposedChange(kind=RemedyKind.PREEMPT, row=self.row, gone=(held,)) for held in able[:VICTIMS_MAX])

    def raised(self, before: ProposedChange | None, quota: Quota) -> ProposedChange:
        """The quotas of an earlier change, and this one raised by just enough for the session.

        Args:
            before: quotas that were raised already; None = none.
        """
        quotas = () if before is None else before.quotas
        larger = _raised(quota, self.row, self.snapshot, prices=self.policy.prices, now_us=self.now_us)
        return ProposedChange(kind=RemedyKind.QUOTA, row=self.row, quotas=(*quotas, larger))

    def _with(self, kind: RemedyKind, **fields: Any) -> ProposedChange:
        return ProposedChange(kind=kind, row=_expected(replace(self.row, **fields)))

    def _resized(
        self,
        kind: RemedyKind,
        *,
        changes: Mapping[SlotName, int] | None = None,
        cluster_size: int | None = None,
        where: PlacementConstraints | None = None,
    ) -> ProposedChange:
        row = self.row
        there = row.where if where is None else where
        request = resized(
            dict(row.request), changes or {}, before=_per_gpu(self.policy, row.where.pool), after=self._per_gpu(there)
        )
        fields: dict[str, Any] = {"request": request, "where": there}
        if cluster_size is not None:  # one below the fewest kernels of an elastic gang: it would start whole
            fields |= {"cluster_size": cluster_size, "kernels_max": None}
        if changes or cluster_size:
            fields |= {"fallback_level": 0, "falls_back_us": None}
        return self._with(kind, **fields)

    def _per_gpu(self, where: PlacementConstraints) -> PerGpu:
        return _per_gpu(self.policy, where.pool)

    def _shorter_limits_ms(self) -> list[int]:
        """Below the present one, in whole minutes: usual ones, and the longest that end before a reservation.

        One that would end less than a minute before a reservation may be too long by the time it is set.
        """
        gaps_ms = [(at_us - self.now_us) // 1000 for at_us in self.plan.promised_us().values()]
        before = {gap // MINUTE_MS * MINUTE_MS - MINUTE_MS for gap in gaps_ms}
        most = self.row.limit_ms
        return sorted(
            (
                limit
                for limit in before | set(LIMITS_MS)
                if limit > 0
                and (most is None or limit < most)
                and not any(0 <= gap - limit < MINUTE_MS for gap in gaps_ms)
            ),
            reverse=True,
        )

    def _models(self) -> Iterator[ProposedChange]:
        """One more model of the pool's, then any."""
        where = self.row.where
        if not where.models:
            return
        models = {
            column
            for agent in self.snapshot.agents
            if agent.is_open and agent.pool == where.pool
            for slot in agent.layout.slots.values()
            for column in slot.models
        }
        for model in sorted(models, key=natural_key):
            if model and not is_of_model(model, where.models):
                yield self._with(RemedyKind.MODEL, where=replace(where, models=(*where.models, model)))
        yield self._with(RemedyKind.MODEL, where=replace(where, models=()))

    def _pools(self) -> Iterator[ProposedChange]:
        where, known = self.row.where, self.policy.pools
        pools = {agent.pool for agent in self.snapshot.agents if agent.is_open} - {where.pool}
        for pool in sorted(pools, key=natural_key):
            if not known or pool in known:
                yield self._resized(RemedyKind.POOL, where=replace(where, pool=pool))

    def _fewer_gpus(self) -> Iterator[ProposedChange]:
        slot, amount = _accelerator(self.row)
        if slot is None or is_size(slot):
            return
        unit = MILLI if scale_of(slot) == MILLI else 1
        smaller = [share for share in SHARES_MILLI if share < amount] if unit == MILLI else []
        for count in (*(whole * unit for whole in fewer(-(-amount // unit))), *smaller):
            yield self._resized(RemedyKind.FEWER_GPUS, changes={slot: count})

    def _shares(self) -> Iterator[ProposedChange]:
        slot, amount = _accelerator(self.row)
        kind, _, unit = (slot or "").partition(".")
        shares = SlotName(f"{kind}.shares")
        is_offered = any(shares in agent.layout.slots for agent in self.snapshot.agents if agent.is_open)
        if unit == "device" and amount == 1 and is_offered:  # of several, a share of one would be another job
            for milli in SHARES_MILLI:
                yield self._resized(RemedyKind.SHARE, changes={shares: milli})


def applied(change: ProposedChange, scene: WaitingSession, *, cache: PassCache | None = None) -> Snapshot:
    """The snapshot as it would be with a change. Sessions that depend on those gone see them as completed.

    Args:
        cache: of passes over snapshots with the same agents.
    """
    snapshot = scene.snapshot
    queue = Queue.of(snapshot.queue)
    if change.row is not scene.row:
        queue = queue.changed(left=[scene.row], joined=[change.row])
    quotas = {**snapshot.quotas, **{quota.id: quota for quota in change.quotas}} if change.quotas else snapshot.quotas
    found = replace(snapshot, queue=queue, quotas=quotas)
    for held in change.gone:
        ends_us = scene.now_us if change.at_us is None else expected_end_us(held, now_us=scene.now_us)
        found = replace(found, costs=Budgets(found, prices=scene.policy.prices, now_us=ends_us).settled(held))
    return without(found, change.gone, policy=scene.policy, cache=cache) if change.gone else found


def without(
    snapshot: Snapshot, gone: Sequence[RunningRow], *, policy: Policy, cache: PassCache | None = None
) -> Snapshot:
    """The snapshot once running sessions have ended."""
    names = {held.session_id for held in gone}
    nodes = {kernel.node_id for held in gone for kernel in held.kernels}
    return replace(
        snapshot,
        used=used_without(gone, capacity=FreeCapacity(snapshot, policy, cache=cache)),
        holders={**snapshot.holders, **_holders_without(names, nodes, snapshot.holders)},
        running=tuple(held for held in snapshot.running if held.session_id not in names),
        dependencies={
            name: SessionState.COMPLETED if name in names else state for name, state in snapshot.dependencies.items()
        },
    )


def fewer(count: int) -> list[int]:
    """Smaller counts than this, the largest first: all of them up to `STEPS_MAX`, then each two thirds of the last."""
    found = []
    while count > 1:
        count = count - 1 if count <= STEPS_MAX else max(2 * count // 3, 1)
        found.append(count)
    return found


def resized(
    request: Mapping[SlotName, int], changes: Mapping[SlotName, int], *, before: PerGpu, after: PerGpu
) -> tuple[tuple[SlotName, int], ...]:
    """A request per kernel after a change, see `amended_amounts`."""
    return tuple(sorted(amended_amounts(request, changes, before=before, after=after).items()))


def _expected(row: PendingRow) -> PendingRow:
    """The row with what its run times are looked up by."""
    if row.workload is None:
        return row
    milli = request_milli(row.request) * (row.kernels_max or row.cluster_size)
    return replace(row, workload=replace(row.workload, milli=milli, limit_ms=row.limit_ms))


def _accelerator(row: PendingRow) -> tuple[SlotName | None, int]:
    """The slot and the amount of the row's accelerators; None if it requests none, or several kinds."""
    found = [(slot, amount) for slot, amount in row.request if is_accelerator(slot)]
    return found[0] if len(found) == 1 else (None, 0)


def _per_gpu(policy: Policy, pool: PoolId) -> PerGpu:
    known = policy.pools.get(pool, Pool())
    return PerGpu(cpus=known.cpu_per_gpu or 0, mem_bytes=known.mem_bytes_per_gpu or 0)


def _holders_without(
    names: set[SessionId], nodes: Iterable[NodeId], holders: Mapping[NodeId, HoldersOn]
) -> dict[NodeId, HoldersOn]:
    return {
        node: {
            device: tuple(name for name in held if name not in names)
            for device, held in holders[node].items()
            if any(name not in names for name in held)
        }
        for node in nodes
        if node in holders
    }


def _raised(quota: Quota, row: PendingRow, snapshot: Snapshot, *, prices: Prices, now_us: int) -> Quota:
    """The quota, raised where it is too low for one more task of a row."""
    need = counted(row.request, times=row.cluster_size)
    held: dict[SlotName, int] = {}
    for other in snapshot.running:
        if quota.id in quota_ids_for(other.owner, other.project):
            for slot, amount in counted_in(other.kernels).items():
                held[slot] = held.get(slot, 0) + amount

    def with_room(amounts: SlotAmounts) -> dict[SlotName, int]:
        most, changed = limits(amounts), {}
        for slot, amount in amounts.finite:
            name = counted_as(slot)
            unit, wanted = milli_of(slot) or 1, held.get(name, 0) + need.get(name, 0)
            changed[slot] = -(-wanted // unit) if name in need and wanted > most[name] else amount
        return changed

    hours, charged = quota.gpu_hours_per_month, 0
    if hours is not None:
        charged = snapshot.usage.charged_in_month(quota.scope, quota.name, now_us)
    spent = 0
    if quota.budget is not None:
        spent = Budgets(snapshot, prices=prices, now_us=now_us).spent(quota.id)
    larger = replace(
        quota,
        budget=quota.budget if quota.budget is None else max(quota.budget, (spent // MICROS + 1) * MICROS),
        max_slots=SlotAmounts({**quota.max_slots, **with_room(quota.max_slots)}),
        gpu_hours_per_month=hours if hours is None else max(hours, charged // HOUR + 1),
    )
    if quota.scope is QuotaScope.CLUSTER:
        return larger
    return replace(larger, own_slots=ResourceSlot({**quota.own_slots, **with_room(quota.own_slots)}))
