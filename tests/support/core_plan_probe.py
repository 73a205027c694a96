"""A program: decides on one large snapshot and prints a hash of the plan's bytes, for runs with other hash seeds."""

import hashlib
import random
import sys

import msgspec

from aliquot.core.decide import decide
from aliquot.core.plan import Plan
from aliquot.core.policy import Policy
from aliquot.core.snapshot import PendingRow, Snapshot
from aliquot_schema.ids import SessionId
from aliquot_schema.states import SessionState
from allocation_devices import cores, gpus, pool
from core_cluster import NOW_US, after, on, row, shuffled, snapshot
from core_strategies import ACCELERATED, HOSTED


def encoded(plan: Plan) -> bytes:
    """The plan as bytes; mappings in their own order."""
    return msgspec.json.encode(plan)


def large_snapshot() -> Snapshot:
    """Twelve agents on eight nodes, half full, and a queue with everything in it."""
    agents = [
        on(f"agent{number}", [*gpus(4), *cores(range(6)), pool(0, size=8192)], node=f"node{number % 8}")
        for number in range(12)
    ]
    ran = snapshot(agents, [_row("ran", number) for number in range(30)])
    before = after(ran, decide(ran, Policy(), now_us=NOW_US, seed=0))
    queue = [_row("ses", number) for number in range(60)]
    known = {SessionId(f"ses{number}"): SessionState.QUEUED for number in range(60)}
    return snapshot(agents, queue, used=before.used, holders=before.holders, dependencies=known)


def _row(prefix: str, number: int) -> PendingRow:
    asked = ACCELERATED[number % 8] | HOSTED[number % 6]
    links = [(f"ses{number - 1}", "after_ok")] if prefix == "ses" and number % 11 == 10 else []
    pause_us = NOW_US + number if number % 13 == 12 else None
    return row(f"{prefix}{number}", at=number % 7, kernels=1 + number % 3, after=links, not_before_us=pause_us, **asked)


if __name__ == "__main__":
    mixed = shuffled(large_snapshot(), random.Random(sys.argv[1]))
    print(hashlib.sha256(encoded(decide(mixed, Policy(), now_us=NOW_US, seed=0))).hexdigest())
