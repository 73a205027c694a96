"""Usage accounting: charges of open leases to users and projects, and what is held on each node.

Rates are in thousandths of a device. A lease keeps the rate of its grant, whatever the policy charges later.
"""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from aliquot.core.allocation.occupancy import added, occupancy_of, occupancy_on
from aliquot.core.fairshare import Usage, rate_milli
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import HoldersOn
from aliquot.service.state.agents import AgentRegistry
from aliquot_schema.bookings import Booking
from aliquot_schema.ids import AgentId, DeviceId, LeaseId, NodeId, ProjectId, SessionId
from aliquot_schema.quotas import Account
from aliquot_schema.resources.devices import Device
from aliquot_schema.resources.leases import Lease
from aliquot_schema.sessions import DEFAULT_PROJECT, Session


class ChargedLease(Struct, frozen=True, kw_only=True):
    """A lease, its project, and the devices that its rate depends on."""

    lease: Lease
    project: ProjectId
    devices: Mapping[DeviceId, Device]
    """Devices of its agent."""


class UsageAccounts:
    """Usage of all users, and the rates of open leases."""

    def __init__(self, usage: Usage | None = None, *, rates: Mapping[LeaseId, int] | None = None) -> None:
        self.usage = usage or Usage()
        self._rates: dict[LeaseId, int] = dict(rates or {})

    @classmethod
    def opened(cls, accounts: Iterable[Account], *, held: Iterable[ChargedLease], policy: Policy) -> "UsageAccounts":
        """Accounts from the stored records and the open leases; each is charged from its grant or the last record."""
        books = cls(Usage.of(accounts, half_life_ms=policy.half_life_ms))
        for charged in sorted(held, key=lambda charged: (charged.lease.granted_us, charged.lease.id)):
            books.grant(charged, policy=policy)
        return books

    def rates(self) -> dict[LeaseId, int]:
        """Rates of the open leases, in thousandths of a device."""
        return dict(self._rates)

    def rate(self, lease_id: LeaseId) -> int:
        """Rate of a lease, in thousandths of a device; 0 when it is not open."""
        return self._rates.get(lease_id, 0)

    def grant(self, charged: ChargedLease, *, policy: Policy) -> None:
        """Charge a lease from its grant on; idempotent."""
        lease = charged.lease
        if lease.id not in self._rates:
            rate = rate_milli(lease.spec, devices=charged.devices, charges=policy.charges)
            self._rates[lease.id] = rate
            self._add_rate(rate, charged, now_us=lease.granted_us)

    def release(self, charged: ChargedLease) -> None:
        """Stop charging a lease at its release."""
        lease = charged.lease
        assert lease.released_us is not None, f"{lease.id} is open"
        rate = self._rates.pop(lease.id, None)
        if rate is not None:
            self._add_rate(-rate, charged, now_us=lease.released_us)

    def _add_rate(self, milli: int, charged: ChargedLease, *, now_us: int) -> None:
        self.usage = self.usage.held(milli, user=charged.lease.owner, project=charged.project, now_us=now_us)


class Holdings:
    """Open leases by node, with the sums held. The sums of a node are replaced, never changed."""

    def __init__(self) -> None:
        self.open_leases: dict[NodeId, dict[LeaseId, Lease]] = {}
        self.used: dict[NodeId, Mapping[DeviceId, int]] = {}
        """Budget units held on each physical device."""
        self.holders: dict[NodeId, HoldersOn] = {}
        """Sessions that hold a part of each device."""
        self._devices: dict[NodeId, Mapping[DeviceId, Device]] = {}

    def leases_on(self, node_id: NodeId) -> Iterable[Lease]:
        """Leases on a node that are not released."""
        return self.open_leases.get(node_id, {}).values()

    def put(self, lease: Lease, node_id: NodeId) -> None:
        """Add, replace or remove a lease."""
        on_node = self.open_leases.setdefault(node_id, {})
        is_new = lease.id not in on_node
        if lease.released_us is None:
            on_node[lease.id] = lease
        else:
            on_node.pop(lease.id, None)
        if not is_new:
            self._count(node_id)
        elif lease.released_us is None:
            self._add(lease, node_id)

    def set_devices(self, node_id: NodeId, devices: Mapping[DeviceId, Device]) -> None:
        """Set the devices of a node, and recompute its sums."""
        self._devices[node_id] = devices
        self._count(node_id)

    def move(self, agent_id: AgentId, *, to: NodeId, of: NodeId) -> bool:
        """Move an agent's open leases to another node; returns whether there were any."""
        on_node = self.open_leases.get(of, {})
        moved = {lease.id: lease for lease in on_node.values() if lease.agent_id == agent_id}
        for lease_id in moved:
            del on_node[lease_id]
        self.open_leases.setdefault(to, {}).update(moved)
        self._count(of)
        self._count(to)
        return bool(moved)

    def _add(self, lease: Lease, node_id: NodeId) -> None:
        held = occupancy_on((lease.spec,), self._devices.get(node_id, {}))
        self.used[node_id] = added(self.used.get(node_id, {}), held)
        if lease.session_id is not None:
            known = self.holders.get(node_id, {})
            self.holders[node_id] = {
                **known,
                **{device_id: (*known.get(device_id, ()), lease.session_id) for device_id in held},
            }

    def _count(self, node_id: NodeId) -> None:
        specs = [lease.spec for lease in self.leases_on(node_id)]
        self.used[node_id] = occupancy_of(specs, self._devices.get(node_id, {}).values())
        holders: dict[DeviceId, tuple[SessionId, ...]] = {}
        for lease in self.leases_on(node_id):
            if lease.session_id is not None:
                for device_id in dict.fromkeys(place for amounts in lease.spec.values() for place in amounts):
                    holders[device_id] = (*holders.get(device_id, ()), lease.session_id)
        self.holders[node_id] = holders


class Charging:
    """Feeds leases into `UsageAccounts`, with their project and devices."""

    def __init__(self, *, sessions: Mapping[SessionId, Session], registry: AgentRegistry, holdings: Holdings) -> None:
        self.books = UsageAccounts()
        self._sessions = sessions
        self._registry = registry
        self._holdings = holdings

    def open(self, accounts: Iterable[Account], *, policy: Policy) -> None:
        """Start from the stored accounts and the open leases."""
        self.books = UsageAccounts.opened(accounts, held=self._held(), policy=policy)

    def charge(self, lease: Lease, *, policy: Policy) -> None:
        """Account for a lease that was granted, renewed or released."""
        if lease.released_us is None:
            self.books.grant(self._charged(lease), policy=policy)
        else:
            self.books.release(self._charged(lease))

    def charge_booking(self, booking: Booking) -> None:
        """Charge what a booking kept idle, at its end."""
        if booking.ended_us is not None and booking.held_back:
            self.books.usage = self.books.usage.charged_once(
                booking.held_back, user=booking.owner, project=booking.project, now_us=booking.ended_us
            )

    def _held(self) -> Iterator[ChargedLease]:
        """All open leases."""
        for leases in self._holdings.open_leases.values():
            for lease in leases.values():
                yield self._charged(lease)

    def _charged(self, lease: Lease) -> ChargedLease:
        session = self._sessions.get(lease.session_id) if lease.session_id is not None else None
        return ChargedLease(
            lease=lease,
            project=DEFAULT_PROJECT if session is None else session.project,
            devices=self._registry.layouts[lease.agent_id].devices,
        )
