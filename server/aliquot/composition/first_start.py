"""What settings say of a new cluster: it counts until somebody says otherwise, and is then kept in the store."""

import logging
from dataclasses import dataclass, replace
from typing import Final

from aliquot.core.policy_changes import amended
from aliquot.service.draft import Draft
from aliquot.service.orchestrating import BY_SETTING, begin_stopped
from aliquot.service.use_cases import UseCases

log: Final = logging.getLogger("aliquot.app")


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstStart:
    """How a cluster begins."""

    stopped: bool = False
    """Whether nothing is placed until somebody starts the orchestrator."""
    order: str | None = None
    """The order policy; None = the usual one."""


async def begin(cases: UseCases, first: FirstStart) -> None:
    """Write down how the cluster begins, where nobody has said anything of it yet.

    Raises:
        StoreUnavailable: the database cannot be written.
    """
    if first.stopped and not await begin_stopped(cases.journal, cases.clock):
        log.info("orchestration-enabled does not count: the orchestrator was started since the first start")
    if first.order is not None and not await _order(cases, first.order):
        log.info("scheduling-policy does not count: the policy was changed since the first start")


async def _order(cases: UseCases, order: str) -> bool:
    def change(draft: Draft) -> bool:
        known = draft.policy()
        if known.version:
            return known.order == order
        news = amended(known, {"order": order})
        draft.put(replace(news, changed_us=cases.clock.now_us()), "changed")
        return True

    return await cases.journal.transact(change, actor=BY_SETTING)
