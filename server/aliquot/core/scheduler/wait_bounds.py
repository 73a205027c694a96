"""Bounds on waiting: the bound that an order gives by itself, and the sessions that the policy's `wait_bound` promotes.

`wait_bound` is a wait within which a session is to start. A session is promoted to the front of the order, behind older
promoted ones, as soon as the devices that it needs are not expected to be free before the bound. It then gets the
reservation of the head, and backfill cannot delay it. Free devices are counted per pool in milli by planned ends:
fragmentation and overruns can still make it late.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from aliquot.core.model.agent_index import AgentIndex
from aliquot.core.model.policy import Policy
from aliquot.core.model.queue import LEAST_MILLI, POOL, QUEUED_US, IntArray, Queue
from aliquot.core.model.snapshot import RunningRow
from aliquot.core.prediction import duration_text
from aliquot.core.scheduler.backlog import NO_SIZE, RunningWork
from aliquot.core.scheduler.expected_ends import expected_ends_us
from aliquot.core.scheduler.ordering import AGED, PREEMPTIVE
from aliquot_schema.ids import PoolId

EARLY_DIVISOR: Final = 10
"""A session is promoted a tenth of the bound before it would be too late, as passes are made at events only."""
ROUNDS_MAX: Final = 4
"""Passes decided again because sessions placed in them would delay another one beyond the bound."""
Start = tuple[int, int]
"""A session placed in this pass: its position in the queue, its planned end in microseconds UTC."""


class WaitBound:
    """Which eligible sessions `wait_bound` promotes in one pass."""

    def __init__(
        self,
        queue: Queue,
        policy: Policy,
        *,
        ready: IntArray,
        running: Sequence[RunningRow],
        work: RunningWork,
        index: AgentIndex,
        now_us: int,
    ) -> None:
        """
        Args:
            ready: [rows] 1 = eligible in this pass.
            work: of `running`.
        """
        self._queue = queue
        self._bound_us = policy.weights.wait_bound_ms * 1000
        self._ready = ready
        self._index = index
        self._now_us = now_us
        self._pool_of_running = np.array([work.pools[number] for number in work.pool.tolist()], dtype=np.object_)
        self._milli = np.array([row.milli for row in running], dtype=np.int64)
        self._ends_us = expected_ends_us(running, now_us=now_us)

    def promoted(self, starts: Iterable[Start] = ()) -> list[int]:
        """Positions of the promoted sessions, the oldest first.

        Args:
            starts: sessions that start now; they count as running.
        """
        started = list(starts)
        taken = {position for position, _ in started}
        pools = self._queue.column(POOL)
        found = [
            position
            for number in np.unique(pools[self._ready == 1]).tolist()
            for position in self._of_pool(
                self._queue.pools()[number],
                np.flatnonzero((pools == number) & (self._ready == 1)).tolist(),
                [start for start in started if pools[start[0]] == number],
                taken=taken,
            )
        ]
        return sorted(found)

    def _of_pool(
        self, pool: PoolId, positions: Sequence[int], started: Sequence[Start], *, taken: set[int]
    ) -> list[int]:
        milli, queued_us = self._queue.column(LEAST_MILLI), self._queue.column(QUEUED_US)
        mine = self._pool_of_running == pool
        ends_us = np.concatenate([self._ends_us[mine], np.array([end for _, end in started], dtype=np.int64)])
        held = np.concatenate([self._milli[mine], milli[[position for position, _ in started]]])
        order = np.argsort(ends_us, kind="stable")
        times, released = ends_us[order].tolist(), np.cumsum(held[order]).tolist()
        free = self._index.sizes.get(pool, NO_SIZE).milli - int(held.sum())
        last_us = max(times[-1], self._now_us) if times else self._now_us
        found: list[int] = []
        ahead = 0
        for position in positions:
            late_us = int(queued_us[position]) + self._bound_us - self._bound_us // EARLY_DIVISOR
            if late_us > last_us:
                break  # later sessions have later bounds
            need = ahead + int(milli[position]) - free
            step = bisect_left(released, need) if need > 0 else -1
            fits_us = self._now_us if step < 0 else times[step] if step < len(times) else last_us
            if position not in taken and fits_us >= late_us:
                found.append(position)
                ahead += int(milli[position])
        return found


def in_front(line: IntArray, promoted: Sequence[int]) -> IntArray:
    """The line with the promoted positions first, in their order."""
    first = np.array(promoted, dtype=np.int64)
    return np.concatenate([first, line[~np.isin(line, first)]])


def order_bound_ms(policy: Policy, *, unit_ms: int, estimate_ms: int | None = None) -> int | None:
    """How much later a session may come and still be ahead of an earlier one of the same priority, by order alone.

    See `ordering`; under the orders with age, sessions that ask for a larger part of the pool are excepted.

    Args:
        unit_ms: the unit of age of the pool, see `backlog`.
        estimate_ms: expected run time of the earlier session; None = unknown.
    Returns:
        Milliseconds; None if the order gives no bound, or only one that depends on the unknown run time.
    """
    weights = policy.weights
    if policy.order in AGED:
        head_start = weights.short + (weights.fair if policy.order == "fair_share" else 0)
        return unit_ms * head_start // weights.age
    if policy.order == "sjf":
        return None if estimate_ms is None else estimate_ms * 100 // weights.sjf_age_pct
    return None if policy.order in PREEMPTIVE else 0


def order_bound_text(policy: Policy, *, unit_ms: int, estimate_ms: int | None = None) -> str:
    """The bounds on waiting under a policy, for a person; arguments as of `order_bound_ms`."""
    bound_ms = order_bound_ms(policy, unit_ms=unit_ms, estimate_ms=estimate_ms)
    later = "later" if not bound_ms else f"more than {duration_text(bound_ms)} later"
    if bound_ms is None and policy.order == "sjf":
        times = 100 / policy.weights.sjf_age_pct
        later = f"later by more than {times:g} times the expected run time of an earlier one"
    who = "session" if policy.order in ("fcfs", "gang", "sjf") else "session of the same priority"
    wider = ", unless it asks for a larger part of the pool" if policy.order in AGED else ""
    texts = [f"No {who} that came {later} starts before an earlier one by order{wider}."]
    if policy.order in PREEMPTIVE:
        texts = [f"The order {policy.order} alone bounds no wait: later sessions can start first at any time."]
    texts.append("Once a session is first, backfill delays it only if other sessions run longer than planned.")
    if policy.weights.wait_bound_ms:
        bound = duration_text(policy.weights.wait_bound_ms)
        texts.append(f"A session that would wait longer than {bound} is moved to the front.")
    return " ".join(texts)
