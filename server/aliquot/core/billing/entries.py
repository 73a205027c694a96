"""Entries: what a released lease, and an attempt whose work is lost, change in the statements.

Double entry: the device time of each lease is entered once per account of its holder (project, user and API key) and,
within each, under exactly one kind. A loss moves time from `used` to another kind and creates none. All times are
whole milliseconds since the epoch, as in `fairshare`.
"""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from aliquot.core.allocation.occupancy import occupancy_on
from aliquot.core.billing.tariffs import PricedDevice, cost
from aliquot.core.fairshare import month_of, starts_us
from aliquot.core.saved_work import saved_ms
from aliquot.core.transitions import first_failed, is_lost
from aliquot_schema.billing import Prices, Statement, TimeKind, statement_id
from aliquot_schema.cluster.agents import Agent
from aliquot_schema.ids import DeviceId, KeyId, PoolId, ProjectId, QuotaId, UserId
from aliquot_schema.quotas import QuotaScope, quota_id
from aliquot_schema.resources.devices import Device, ResourceSpec
from aliquot_schema.resources.leases import Kernel, Lease
from aliquot_schema.resources.slots import MILLI, is_accelerator
from aliquot_schema.sessions import DEFAULT_PROJECT, PreemptionCause, Session
from aliquot_schema.states import ACTIVE, SessionState


class StatementEntry(Struct, frozen=True, kw_only=True):
    """Changes of the statements of some accounts in one month, in their units."""

    accounts: tuple[QuotaId, ...]
    month: int
    amounts: Mapping[str, int]
    """By field of `Statement`."""

    def added(self, account: QuotaId, known: Statement | None) -> Statement:
        """The statement of one of the accounts after this entry."""
        before = known or Statement(id=statement_id(account, self.month), account=account, month=self.month)
        return replace(before, **{name: getattr(before, name) + amount for name, amount in self.amounts.items()})


def accounts_of(owner: UserId, project: ProjectId, key_id: KeyId | None) -> tuple[QuotaId, ...]:
    """The accounts that what a session holds is entered in."""
    key = () if key_id is None else (quota_id(QuotaScope.KEY, key_id),)
    return (quota_id(QuotaScope.PROJECT, project), quota_id(QuotaScope.USER, owner), *key)


def held_devices(spec: ResourceSpec, devices: Mapping[DeviceId, Device], *, pool: PoolId) -> list[PricedDevice]:
    """The parts of accelerators in a spec; one that is gone has no model."""
    return [
        PricedDevice(milli, devices[device_id].model if device_id in devices else "", pool)
        for device_id, milli in held_milli_of(spec, devices).items()
    ]


def held_milli_of(spec: ResourceSpec, devices: Mapping[DeviceId, Device]) -> dict[DeviceId, int]:
    """Thousandths of each accelerator in a spec."""
    return occupancy_on([{slot: spec[slot] for slot in spec if is_accelerator(slot)}], devices)


class _Part(Struct, frozen=True, kw_only=True):
    """What a lease held in one month."""

    month: int
    since_ms: int
    until_ms: int
    idle: int


class HeldLease(Struct, frozen=True, kw_only=True):
    """A released lease, as statements see it."""

    lease: Lease
    session: Session | None
    agent: Agent
    prices: Prices

    def entries(self) -> Iterator[StatementEntry]:
        """What its release enters, one entry per month."""
        devices = self._devices()
        milli = sum(device.milli for device in devices)
        if not milli:
            return
        for part in self._parts(milli):
            held = milli * (part.until_ms - part.since_ms)
            price = cost(devices, self.prices, since_ms=part.since_ms, until_ms=part.until_ms)
            amounts = {"used": held - part.idle, "idle": part.idle, "cost": price}
            yield StatementEntry(accounts=self._accounts, month=part.month, amounts=amounts)

    def lost(self, lost_ms: int, *, kind: TimeKind, is_credited: bool) -> Iterator[StatementEntry]:
        """Move the last `lost_ms` of what it held from `used` to a kind, one entry per month."""
        devices = self._devices()
        milli, until_ms = sum(device.milli for device in devices), (self.lease.released_us or 0) // 1000
        for part in self._parts(milli) if milli else ():
            since_ms = max(part.since_ms, until_ms - lost_ms)
            lost = milli * max(part.until_ms - since_ms, 0)
            moved = min(lost, milli * (part.until_ms - part.since_ms) - part.idle)
            if moved <= 0:
                continue
            price = cost(devices, self.prices, since_ms=since_ms, until_ms=part.until_ms) if is_credited else 0
            credited = price * moved // lost
            amounts = {"used": -moved, kind.value: moved, "cost": -credited, "credited": credited}
            yield StatementEntry(accounts=self._accounts, month=part.month, amounts=amounts)

    def _devices(self) -> list[PricedDevice]:
        """The parts of accelerators that it held."""
        devices = {device.id: device for device in self.agent.devices}
        return held_devices(self.lease.spec, devices, pool=self.agent.pool)

    @property
    def _accounts(self) -> tuple[QuotaId, ...]:
        session = self.session
        project = DEFAULT_PROJECT if session is None else session.project
        return accounts_of(self.lease.owner, project, None if session is None else session.key_id)

    def _parts(self, milli: int) -> Iterator[_Part]:
        """Its time by month, the last month first. Idle time is entered where it most likely was: at the end."""
        lease, idle = self.lease, self.lease.idle
        until_ms, since_ms = (lease.released_us or 0) // 1000, lease.granted_us // 1000
        while until_ms > since_ms:
            month = month_of(until_ms * 1000 - 1)
            from_ms = max(since_ms, starts_us(month) // 1000)
            here = min(idle, milli * (until_ms - from_ms))
            yield _Part(month=month, since_ms=from_ms, until_ms=until_ms, idle=here)
            idle, until_ms = idle - here, from_ms


class Loss(Struct, frozen=True):
    """The work that the end of an attempt loses."""

    lost_ms: int
    kind: TimeKind
    is_credited: bool
    """Whether its price is taken back: preemption, or a fault of the cluster, took it."""


def loss_of(before: Session | None, after: Session, kernels: Iterable[Kernel]) -> Loss | None:
    """What a change of a session loses of its attempt's work; None unless the attempt ends with it and loses some.

    Work is lost when the attempt is queued again or fails; what a canceled or completed session held was used.

    Args:
        kernels: of the attempt.
    """
    if before is None or before.state not in ACTIVE or before.attempt != after.attempt:
        return None
    if not after.is_pending and after.state is not SessionState.FAILED:
        return None
    exited = list(kernels)
    held_ms = max(((one.ended_us or one.granted_us) // 1000 - one.granted_us // 1000 for one in exited), default=0)
    lost_ms = max(held_ms - saved_ms(before), 0)
    if not lost_ms:
        return None
    is_new = after.preemptions > before.preemptions
    is_fault = is_new and after.preemption is not None and after.preemption.cause is PreemptionCause.DEVICE
    if is_new and not is_fault:
        return Loss(lost_ms, TimeKind.LOST_PREEMPTION, is_credited=True)
    failed = first_failed(exited)
    return Loss(lost_ms, TimeKind.LOST_FAILURE, is_credited=is_fault or failed is None or is_lost(failed))


def counts_of(before: Session | None, after: Session) -> Iterator[StatementEntry]:
    """What a change of a session counts: its end with its wait, and a preemption, in the month of its receipt.

    Of a job array, its tasks count.
    """
    if before is None or before.tasks is not None or before.state not in ACTIVE or before.attempt != after.attempt:
        return
    accounts = accounts_of(after.owner, after.project, after.key_id)
    if after.ended_us is not None and before.scheduled_us is not None:
        waited_ms = max(before.scheduled_us // 1000 - before.queued_us // 1000, 0)
        yield StatementEntry(
            accounts=accounts, month=month_of(after.ended_us), amounts={"sessions": 1, "waited_ms": waited_ms}
        )
    if after.preemptions > before.preemptions and after.preemption is not None:
        yield StatementEntry(accounts=accounts, month=month_of(after.preemption.at_us), amounts={"preemptions": 1})


def device_hours(amount: int) -> float:
    """Device time in hours of a whole device."""
    return amount / (MILLI * 3_600_000)
