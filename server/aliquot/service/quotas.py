"""Quotas and usage: limits of users, projects and the cluster, and the views of what they have used."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from aliquot.core.billing.budgets import Budgets
from aliquot.core.fairshare import Usage
from aliquot.core.quota import booked_amounts, held_beside, quota_ids_for
from aliquot.core.validation.fields import check_project_name
from aliquot.core.validation.session import unknown_slot, with_full_names
from aliquot.service.access import check_role
from aliquot.service.operators import OperatorCommands, check_version
from aliquot.service.state.indexes import NO_SESSIONS
from aliquot.service.state.projects import create_again, delete, known_projects
from aliquot.service.state.snapshots import take
from aliquot.service.state.state import State
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot.service.views.terms import moment
from aliquot_schema.billing import MICROS
from aliquot_schema.errors import InvalidRequest, NotFound, StateConflict
from aliquot_schema.identity.accounts import Role
from aliquot_schema.ids import ProjectId, QuotaId, SlotName, natural_key
from aliquot_schema.quotas import Quota, QuotaScope, quota_id
from aliquot_schema.requests import Caller
from aliquot_schema.resources.slots import ResourceSlot, SlotAmounts
from aliquot_schema.sessions import DEFAULT_PROJECT
from aliquot_schema.views.admin import NewQuota, ProjectDeleted, QuotaChanged, QuotaUseView, QuotaView, UsageView
from aliquot_schema.views.sessions import slot_amounts

HOUR: Final = 1000 * 3_600_000
"""One device for one hour, in thousandths of a device x milliseconds."""


def usage_views(
    usage: Usage, *, user: str | None = None, project: str | None = None, now_us: int
) -> tuple[UsageView, ...]:
    """Usage by project and user that ever held devices, optionally of one user or one project."""
    decayed = usage.used_at(now_us)
    total = sum(decayed.values())
    found = []
    for account in sorted(usage.balances):
        if (project is None or account[0] == project) and (user is None or account[1] == user):
            balance = usage.balances[account].held(0, now_us=now_us, half_life_ms=usage.half_life_ms)
            found.append(
                UsageView(
                    project=account[0],
                    user=account[1],
                    gpu_hours=balance.charged / HOUR,
                    gpu_hours_month=balance.month_charged / HOUR,
                    gpu_hours_decayed=balance.used / HOUR,
                    share=decayed.get(account, 0) / total if total else 0.0,
                )
            )
    return tuple(found)


def quota_uses(state: State, *, now_us: int) -> tuple[QuotaUseView, ...]:
    """What quotas limit, as it is now, by scope and name; the cluster is always there."""
    held: dict[QuotaId, Counter[SlotName]] = {quota_id(QuotaScope.CLUSTER): Counter()}
    snapshot = take(state, with_costs=True)
    budgets = Budgets(snapshot, prices=state.policy.prices, now_us=now_us)
    active = {one.id: one for one in snapshot.bookings if one.is_active(now_us)}
    for booking in active.values():
        for quota in quota_ids_for(booking.owner, booking.project):
            held.setdefault(quota, Counter()).update(booked_amounts(booking.devices, agents=snapshot.agents))
    for row in snapshot.running:
        for quota in quota_ids_for(row.owner, row.project):
            held.setdefault(quota, Counter()).update(held_beside(row, active=active))
    waiting: Counter[QuotaId] = Counter({quota_id(QuotaScope.CLUSTER): state.pending_counts.waiting})
    waiting.update({quota_id(QuotaScope.USER, name): n for name, n in state.pending_counts.waiting_by_owner().items()})
    for project, counts in state.pending_counts.of_projects().items():
        waiting[quota_id(QuotaScope.PROJECT, project)] += counts.waiting
    hours: Counter[QuotaId] = Counter()
    for (project, user), balance in state.usage.balances.items():
        charged = balance.held(0, now_us=now_us, half_life_ms=state.usage.half_life_ms).month_charged
        hours.update(dict.fromkeys(quota_ids_for(user, project), charged))
    found = []
    keys = {name for name in state.quotas if name.startswith(f"{QuotaScope.KEY}:") and not is_void(state.quotas[name])}
    for quota in sorted({*held, *waiting, *hours, *keys}, key=natural_key):
        scope, _, name = quota.partition(":")
        amounts = SlotAmounts(held.get(quota, Counter())).to_text()
        found.append(
            QuotaUseView(
                scope=QuotaScope(scope),
                name=name,
                held=slot_amounts(list(amounts.items())),
                waiting=waiting[quota],
                gpu_hours_month=hours[quota] / HOUR,
                cost_month=budgets.spent(quota) / MICROS,
            )
        )
    return tuple(found)


NAME_CHARS_MAX: Final = 128
MEMBERS_SHOWN: Final = 10
NUMBER_MAX: Final = 2**31 - 1


class Quotas(OperatorCommands):
    """Use cases of quotas. Removing a quota stores one without limits, which counts as none."""

    def quotas(self, caller: Caller) -> tuple[QuotaView, ...]:
        """All quotas; the cluster's comes first."""
        found = [quota for quota in self._state.quotas.values() if not is_void(quota)]
        found.sort(key=lambda quota: (quota.scope is not QuotaScope.CLUSTER, quota.scope, natural_key(quota.name)))
        return tuple(quota_view(quota) for quota in found)

    def quota_use(self, caller: Caller) -> tuple[QuotaUseView, ...]:
        """See `quota_uses`. Visible to all users, like quotas and usage."""
        return quota_uses(self._state, now_us=self._clock.now_us())

    def usage(self, caller: Caller, *, user: str | None, project: str | None) -> tuple[UsageView, ...]:
        """See `usage_views`."""
        return usage_views(self._state.usage, user=user, project=project, now_us=self._clock.now_us())

    async def set_quota(self, caller: Caller, asked: NewQuota, expected_version: int | None) -> QuotaChanged:
        """Set a quota, replacing the existing one. One of a project without limits creates the project.

        Raises:
            Forbidden, VersionConflict, InvalidRequest, UnknownSlot.
        """
        quota = quota_of(asked, state=self._state)

        def change(draft: UnitOfWork) -> Quota:
            known = draft.quota(quota.id)
            if quota.scope is QuotaScope.PROJECT:
                if ProjectId(quota.name) not in known_projects(self._state):
                    check_project_name(quota.name, field="name")
                create_again(draft, [ProjectId(quota.name)])
            actual = 0 if known is None or is_void(known) else known.version
            check_version(quota.id, expected=expected_version, actual=actual)
            if known is not None and replace(quota, version=known.version, changed_us=known.changed_us) == known:
                return known
            return draft.put(replace(quota, changed_us=self._clock.now_us()), "changed")

        return self._answer(await self._act(caller, change))

    async def remove_quota(
        self, caller: Caller, scope: QuotaScope, name: str, expected_version: int | None
    ) -> QuotaChanged:
        """Remove a quota.

        Raises:
            Forbidden, VersionConflict, NotFound.
        """
        wanted = quota_id(scope, name)

        def change(draft: UnitOfWork) -> Quota:
            known = draft.quota(wanted)
            if known is None or is_void(known):
                raise NotFound(f"there is no quota {wanted[:NAME_CHARS_MAX]}", kind="quota", id=wanted[:NAME_CHARS_MAX])
            check_version(wanted, expected=expected_version, actual=known.version)
            void = Quota(id=wanted, version=known.version, scope=scope, name=name, changed_us=self._clock.now_us())
            return draft.put(void, "removed")

        return self._answer(await self._act(caller, change))

    async def delete_project(self, caller: Caller, name: str) -> ProjectDeleted:
        """Delete a project that nothing uses. Its usage and past sessions stay.

        Raises:
            Forbidden: the caller is not an admin.
            NotFound, StateConflict: the message names what uses it.
        """
        check_role(caller, Role.ADMIN)
        project = ProjectId(name)

        def change(draft: UnitOfWork) -> None:
            if project == DEFAULT_PROJECT:
                raise StateConflict(
                    f"{project} cannot be deleted, because sessions that name no project use it; `aliquot quota set "
                    f"project:{project} --max-queued 0` closes it",
                    id=project,
                    state="default",
                )
            if project not in known_projects(self._state):
                raise NotFound(f"there is no project {name[:NAME_CHARS_MAX]}", kind="project", id=name[:NAME_CHARS_MAX])
            uses = list(self._uses(project))
            if uses:
                raise StateConflict(f"project {project} is in use: {'; '.join(uses)}", id=project, state="in use")
            delete(draft, project)

        await self._act(caller, change)
        return ProjectDeleted(name=name, revision=self._state.revision)

    def _uses(self, project: ProjectId) -> Iterator[str]:
        """What uses a project, and how that ends."""
        members = [user.id for user in self._state.people.users.values() if project in user.projects]
        if members:
            shown = ", ".join(sorted(members, key=natural_key)[:MEMBERS_SHOWN])
            more = f" and {len(members) - MEMBERS_SHOWN} more" if len(members) > MEMBERS_SHOWN else ""
            yield f"its members are {shown}{more} (`aliquot user set USER --project ...` names a user's projects)"
        counts = self._state.pending_counts.of_projects().get(project, NO_SESSIONS)
        if counts.waiting or counts.running:
            yield (
                f"{counts.waiting} of its sessions wait and {counts.running} run (`aliquot session list --project "
                f"{project}` lists them)"
            )
        booked = [one.name for one in self._state.bookings.open if one.project == project]
        if booked:
            yield f"it has the booking {booked[0]} (`aliquot reservations give-back {booked[0]}` ends it)"
        quota = self._state.quotas.get(quota_id(QuotaScope.PROJECT, project))
        if quota is not None and not is_void(quota):
            yield f"it has a quota (`aliquot quota remove project:{project}` removes it)"

    def _answer(self, quota: Quota) -> QuotaChanged:
        return QuotaChanged(quota=quota_view(quota), revision=self._state.revision)


def quota_view(quota: Quota) -> QuotaView:
    """The view of a quota."""
    return QuotaView(
        scope=quota.scope,
        name=quota.name,
        version=quota.version,
        max_slots=slot_amounts(list(quota.max_slots.to_text().items())),
        own_slots=slot_amounts(list(quota.own_slots.to_text().items())),
        max_queued=quota.max_queued,
        gpu_hours_per_month=quota.gpu_hours_per_month,
        weight=quota.weight,
        budget=None if quota.budget is None else quota.budget / MICROS,
        changed_at=moment(quota.changed_us),
    )


def is_void(quota: Quota) -> bool:
    """Whether it has no limits, and so counts as removed."""
    numbers = quota.max_queued, quota.gpu_hours_per_month, quota.weight, quota.budget
    return not quota.max_slots and not quota.own_slots and all(number is None for number in numbers)


def quota_of(asked: NewQuota, *, state: State) -> Quota:
    """The quota that is asked for, not yet stored.

    Raises:
        InvalidRequest, UnknownSlot.
    """
    known = state.slots_in_use()
    quota = _checked(
        replace(
            asked,
            max_slots=with_full_names(asked.max_slots, known=known, field="max_slots"),
            own_slots=with_full_names(asked.own_slots, known=known, field="own_slots"),
        )
    )
    _check_slots(quota, state)
    return quota


def _checked(asked: NewQuota) -> Quota:
    if (asked.scope is QuotaScope.CLUSTER) is bool(asked.name):
        raise InvalidRequest("name: required for a user, project or API key, not allowed for the cluster", field="name")
    if asked.scope is QuotaScope.PROJECT and "/" in asked.name:
        raise InvalidRequest("name: a project's name must not contain a slash", field="name")
    if len(asked.name) > NAME_CHARS_MAX or not asked.name.isprintable():
        raise InvalidRequest(f"name: at most {NAME_CHARS_MAX} printable characters", field="name")
    _check_budget(asked)
    for field in ("max_queued", "gpu_hours_per_month", "weight"):
        value = getattr(asked, field)
        least = 1 if field == "weight" else 0
        if value is not None and not least <= value <= NUMBER_MAX:
            raise InvalidRequest(f"{field}: {value} is not between {least} and {NUMBER_MAX}", field=field)
    own = ResourceSlot.parse(_once(asked.own_slots, field="own_slots"))
    most = SlotAmounts.parse(_once(asked.max_slots, field="max_slots"))
    if own and asked.scope is QuotaScope.CLUSTER:
        raise InvalidRequest(
            "own_slots: only users and projects may have own slots, not the cluster", field="own_slots"
        )
    quota = Quota(
        id=quota_id(asked.scope, asked.name),
        scope=asked.scope,
        name=asked.name,
        max_slots=most,
        own_slots=own,
        max_queued=asked.max_queued,
        gpu_hours_per_month=asked.gpu_hours_per_month,
        weight=asked.weight,
        budget=None if asked.budget is None else round(asked.budget * MICROS),
    )
    if is_void(quota) and quota.scope is not QuotaScope.PROJECT:
        raise InvalidRequest("the quota has no limits; set one, or use remove_quota", field=None)
    return quota


def _check_budget(asked: NewQuota) -> None:
    if asked.budget is not None and not 0 <= asked.budget <= NUMBER_MAX:
        raise InvalidRequest(f"budget: {asked.budget} is not between 0 and {NUMBER_MAX}", field="budget")
    numbers = asked.max_queued, asked.gpu_hours_per_month, asked.weight
    has_others = asked.max_slots or asked.own_slots or any(number is not None for number in numbers)
    if asked.scope is QuotaScope.KEY and has_others:
        raise InvalidRequest("scope: the only limit of an API key is its budget", field="scope")


def _check_slots(quota: Quota, state: State) -> None:
    known = state.slots_in_use()
    for field, slots in (("max_slots", quota.max_slots), ("own_slots", quota.own_slots)):
        for slot in slots:
            if known and slot not in known:
                raise unknown_slot(slot, known=known, field=field)


def _once(pairs: Sequence[tuple[str, str]], *, field: str) -> dict[str, str]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise InvalidRequest(f"{field}: a slot appears twice", field=field)
    return found
