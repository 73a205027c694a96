"""Accounting: who is charged for what is held, from each grant to its release."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from aliquot.core.charges import rate_milli
from aliquot.core.fairshare import Usage
from aliquot.core.policy import Policy
from aliquot_schema.devices import Device
from aliquot_schema.ids import DeviceId, LeaseId, ProjectId
from aliquot_schema.leases import Lease
from aliquot_schema.quotas import Account


@dataclass(frozen=True, slots=True, kw_only=True)
class Charged:
    """A lease, and what its price depends on."""

    lease: Lease
    project: ProjectId
    devices: Mapping[DeviceId, Device]
    """Of its agent."""


class Books:
    """What everybody has used. A lease keeps the price that it was granted at."""

    def __init__(self, usage: Usage | None = None, *, rates: Mapping[LeaseId, int] | None = None) -> None:
        self.usage = usage or Usage()
        self._rates: dict[LeaseId, int] = dict(rates or {})

    @classmethod
    def opened(cls, accounts: Iterable[Account], *, held: Iterable[Charged], policy: Policy) -> "Books":
        """From the records, and what is held besides: charged anew since its grant or the last record."""
        books = cls(Usage.of(accounts, half_life_ms=policy.half_life_ms))
        for charged in sorted(held, key=lambda charged: (charged.lease.granted_us, charged.lease.id)):
            books.grant(charged, policy=policy)
        return books

    def rates(self) -> dict[LeaseId, int]:
        """What each open lease costs, milli of a device."""
        return dict(self._rates)

    def rate(self, lease_id: LeaseId) -> int:
        """What a lease costs, milli of a device; 0 for one that is not open."""
        return self._rates.get(lease_id, 0)

    def grant(self, charged: Charged, *, policy: Policy) -> None:
        """A lease is charged from its grant on; granting it again changes nothing."""
        lease = charged.lease
        if lease.id not in self._rates:
            rate = rate_milli(lease.spec, devices=charged.devices, charges=policy.charges)
            self._rates[lease.id] = rate
            self._hold(rate, charged, now_us=lease.granted_us)

    def release(self, charged: Charged) -> None:
        """A lease was released, and is charged no longer."""
        lease = charged.lease
        assert lease.released_us is not None, f"{lease.id} is open"
        rate = self._rates.pop(lease.id, None)
        if rate is not None:
            self._hold(-rate, charged, now_us=lease.released_us)

    def _hold(self, milli: int, charged: Charged, *, now_us: int) -> None:
        self.usage = self.usage.held(milli, user=charged.lease.owner, project=charged.project, now_us=now_us)
