"""Price estimates: what a session would cost by its expected run time and its time limit, and what one has cost."""

from collections.abc import Iterable, Sequence

from aliquot.core.allocation.options import is_of_model
from aliquot.core.billing.budgets import devices_of
from aliquot.core.billing.tariffs import HOUR_MS, PricedDevice, cost, hourly
from aliquot.core.model.plan import KernelPlacement
from aliquot.core.model.snapshot import PendingRow, Snapshot, request_milli
from aliquot_schema.billing import MICROS, Prices
from aliquot_schema.resources.units import format_duration
from aliquot_schema.views.billing import CostView


def estimate(
    row: PendingRow,
    kernels: Sequence[KernelPlacement],
    snapshot: Snapshot,
    *,
    prices: Prices,
    expected_ms: int | None,
    from_us: int,
) -> CostView | None:
    """The price of a session that is not submitted, all its tasks together; None without prices or accelerators.

    Args:
        kernels: where it would run; empty = unknown, and the dearest device that it may use is taken.
        expected_ms: its run time; None = unknown.
        from_us: its start.
    """
    agents = {agent.id: agent for agent in snapshot.agents}
    devices = devices_of(kernels, agents) if kernels else _most_expensive(row, snapshot, prices)
    if not prices.rates or not devices:
        return None
    tasks, from_ms = 1 if row.tasks is None else len(row.tasks), from_us // 1000

    def price(run_ms: int) -> float:
        return tasks * cost(devices, prices, since_ms=from_ms, until_ms=from_ms + run_ms) / MICROS

    most = None if row.limit_ms is None else price(row.limit_ms)
    expected = None if expected_ms is None else price(expected_ms)
    per_hour, unit = price(HOUR_MS), prices.currency
    words = [f"{per_hour:.2f} {unit} per hour"]
    if expected is not None:
        words.append(f"about {expected:.2f} {unit} for an expected {format_duration(round((expected_ms or 0) / 1000))}")
    if most is not None:
        words.append(f"at most {most:.2f} {unit} by its time limit")
    text = f"It would cost {', '.join(words)}."
    return CostView(currency=unit, amount=expected, amount_max=most, per_hour=per_hour, text=text)


def actual(
    held: Iterable[tuple[PricedDevice, int, int]], *, prices: Prices, credited_part: float = 0.0
) -> CostView | None:
    """The price so far of what a session held, by the present prices; None without prices.

    Args:
        held: a part of a device, since and until, in microseconds.
        credited_part: of it that is not charged, 0 to 1.
    """
    if not prices.rates:
        return None
    parts = list(held)
    micros = sum(
        cost([device], prices, since_ms=since // 1000, until_ms=until // 1000) for device, since, until in parts
    )
    hours = sum(device.milli * max(until - since, 0) for device, since, until in parts) / (1000 * 1000 * HOUR_MS)
    amount = micros * (1 - credited_part) / MICROS
    text = f"{amount:.2f} {prices.currency}"
    if credited_part:
        text += f", after {micros * credited_part / MICROS:.2f} {prices.currency} credited for lost work"
    per_hour = micros / MICROS / hours if hours else 0.0
    return CostView(currency=prices.currency, amount=amount, amount_max=None, per_hour=per_hour, text=text)


def _most_expensive(row: PendingRow, snapshot: Snapshot, prices: Prices) -> list[PricedDevice]:
    """All that it requests, on the dearest model of its pool that it may use."""
    milli = request_milli(row.request) * (row.kernels_max or row.cluster_size)
    models = {
        device.model
        for agent in snapshot.agents
        if agent.pool == row.where.pool
        for device in agent.layout.devices.values()
        if not row.where.models or is_of_model(device.model, row.where.models)
    }
    if not milli or not models:
        return []
    dearest = max(sorted(models), key=lambda model: sum(hourly(prices, model, row.where.pool)))
    return [PricedDevice(milli, dearest, row.where.pool)]
