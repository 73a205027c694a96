"""Billing scenes: prices, budgets, and ending all running sessions."""

from typing import Any, Final

from msgspec.structs import replace

from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot_schema.billing import MICROS, Price, Prices
from aliquot_schema.ids import KernelId
from aliquot_schema.quotas import Quota, QuotaScope, quota_id
from service_stage import Stage

HOUR_S: Final = 3600
GPU_HOUR: Final = 1000 * 3_600_000
TWO_EUR: Final = Prices(rates=(Price(micros=2 * MICROS),))


async def with_prices(on: Stage, prices: Prices = TWO_EUR, **policy: Any) -> None:
    def change(draft: UnitOfWork) -> None:
        draft.put(replace(draft.policy(), prices=prices, **policy), "changed")

    await on.journal.persist(change, actor="ann")


async def with_budget(on: Stage, euros: float, scope: QuotaScope = QuotaScope.PROJECT, name: str = "default") -> None:
    quota = Quota(id=quota_id(scope, name), scope=scope, name=name, budget=round(euros * MICROS))
    await on.journal.persist(lambda draft: draft.put(quota, "changed"), actor="ann")


async def end_all(on: Stage, *, code: int = 0) -> None:
    for kernel_id in on.live():
        on.executor.end_kernel(KernelId(kernel_id), code=code)
    await on.settle()
