"""Quotas and use: what users and projects may hold, and what they have used."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from aliquot.service.draft import Draft
from aliquot.service.office import Office, check_version
from aliquot.service.projection_terms import moment
from aliquot.service.usage import usage_views
from aliquot_schema.admin_views import NewQuota, QuotaChanged, QuotaView, UsageView
from aliquot_schema.errors import InvalidRequest, NotFound, UnknownSlot
from aliquot_schema.natural_order import natural_key
from aliquot_schema.quotas import Quota, QuotaScope, quota_id
from aliquot_schema.requests import Caller
from aliquot_schema.slots import ResourceSlot, SlotAmounts
from aliquot_schema.views import slot_amounts

NAME_CHARS_MAX: Final = 128
NUMBER_MAX: Final = 2**31 - 1


class Quotas(Office):
    """A quota that limits nothing is none: that is how one is removed."""

    def quotas(self, caller: Caller) -> tuple[QuotaView, ...]:
        """All quotas, the cluster's first."""
        found = [quota for quota in self._state.quotas.values() if not is_void(quota)]
        found.sort(key=lambda quota: (quota.scope is not QuotaScope.CLUSTER, quota.scope, natural_key(quota.name)))
        return tuple(quota_view(quota) for quota in found)

    def usage(self, caller: Caller, *, user: str | None, project: str | None) -> tuple[UsageView, ...]:
        """What was used, by project and user; those who ever held something."""
        return usage_views(self._state.usage, user=user, project=project, now_us=self._clock.now_us())

    async def set_quota(self, caller: Caller, asked: NewQuota, expected_version: int | None) -> QuotaChanged:
        """Give somebody a quota, in place of the one that he has.

        Raises:
            Forbidden, VersionConflict, InvalidRequest, UnknownSlot.
        """
        quota = _checked(asked)
        self._check_slots(quota)

        def change(draft: Draft) -> Quota:
            known = draft.quota(quota.id)
            check_version(quota.id, expected=expected_version, actual=0 if known is None else known.version)
            if known is not None and replace(quota, version=known.version, changed_us=known.changed_us) == known:
                return known
            return draft.put(replace(quota, changed_us=self._clock.now_us()), "changed")

        return self._answer(await self._act(caller, change))

    async def remove_quota(
        self, caller: Caller, scope: QuotaScope, name: str, expected_version: int | None
    ) -> QuotaChanged:
        """Take a quota away.

        Raises:
            Forbidden, VersionConflict, NotFound.
        """
        wanted = quota_id(scope, name)

        def change(draft: Draft) -> Quota:
            known = draft.quota(wanted)
            if known is None or is_void(known):
                raise NotFound(f"there is no quota {wanted[:NAME_CHARS_MAX]}", kind="quota", id=wanted[:NAME_CHARS_MAX])
            check_version(wanted, expected=expected_version, actual=known.version)
            void = Quota(id=wanted, version=known.version, scope=scope, name=name, changed_us=self._clock.now_us())
            return draft.put(void, "removed")

        return self._answer(await self._act(caller, change))

    def _check_slots(self, quota: Quota) -> None:
        known = tuple(sorted(slot.id for slot in self._state.slots.values() if not slot.retired))
        for slot in (*quota.max_slots, *quota.own_slots):
            if known and slot not in known:
                raise UnknownSlot(f"no agent ever had {slot}; known are {', '.join(known)}", slot=slot, known=known)

    def _answer(self, quota: Quota) -> QuotaChanged:
        return QuotaChanged(quota=quota_view(quota), revision=self._state.revision)


def quota_view(quota: Quota) -> QuotaView:
    """A quota as people see it."""
    return QuotaView(
        scope=quota.scope,
        name=quota.name,
        version=quota.version,
        max_slots=slot_amounts(list(quota.max_slots.to_text().items())),
        own_slots=slot_amounts(list(quota.own_slots.to_text().items())),
        max_queued=quota.max_queued,
        gpu_hours_per_month=quota.gpu_hours_per_month,
        weight=quota.weight,
        changed_at=moment(quota.changed_us),
    )


def is_void(quota: Quota) -> bool:
    """Whether it limits nothing, and so is none any more."""
    numbers = quota.max_queued, quota.gpu_hours_per_month, quota.weight
    return not quota.max_slots and not quota.own_slots and all(number is None for number in numbers)


def _checked(asked: NewQuota) -> Quota:
    if (asked.scope is QuotaScope.CLUSTER) is bool(asked.name):
        raise InvalidRequest("name: a user or project has one, the cluster has none", field="name")
    if len(asked.name) > NAME_CHARS_MAX or not asked.name.isprintable():
        raise InvalidRequest(f"name: at most {NAME_CHARS_MAX} printable characters", field="name")
    for field in ("max_queued", "gpu_hours_per_month", "weight"):
        value = getattr(asked, field)
        least = 1 if field == "weight" else 0
        if value is not None and not least <= value <= NUMBER_MAX:
            raise InvalidRequest(f"{field}: {value} is not within {least} and {NUMBER_MAX}", field=field)
    own = ResourceSlot.parse(_once(asked.own_slots, field="own_slots"))
    most = SlotAmounts.parse(_once(asked.max_slots, field="max_slots"))
    if own and asked.scope is QuotaScope.CLUSTER:
        raise InvalidRequest("own_slots: the cluster has none of its own; users and projects do", field="own_slots")
    quota = Quota(
        id=quota_id(asked.scope, asked.name),
        scope=asked.scope,
        name=asked.name,
        max_slots=most,
        own_slots=own,
        max_queued=asked.max_queued,
        gpu_hours_per_month=asked.gpu_hours_per_month,
        weight=asked.weight,
    )
    if is_void(quota):
        raise InvalidRequest("this quota says nothing; give it a limit, or use remove_quota", field=None)
    return quota


def _once(pairs: Sequence[tuple[str, str]], *, field: str) -> dict[str, str]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise InvalidRequest(f"{field}: a slot is given twice", field=field)
    return found
