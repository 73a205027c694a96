"""A program: decides on one large snapshot by many policies and prints a hash of the bytes of all plans.

For runs with other hash seeds. Its argument shuffles the collections of the snapshot.
"""

import hashlib
import random
import sys

import msgspec
from msgspec.structs import replace

from aliquot.core.fairshare import Usage
from aliquot.core.model.plan import Plan
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import PendingRow, RunningRow, Snapshot
from aliquot.core.scheduler.decide import decide
from aliquot_schema.ids import ProjectId, QuotaId, SessionId, UserId
from aliquot_schema.quotas import Quota, QuotaScope
from aliquot_schema.resources.slots import ResourceSlot
from aliquot_schema.sessions import Priority
from aliquot_schema.states import SessionState
from allocation_devices import cores, gpus, pool
from core_cluster import NOW_US, after, on, row, shuffled, snapshot
from core_policies import policies
from core_strategies import ACCELERATED, HOSTED


def encoded(plan: Plan) -> bytes:
    """The plan as bytes, mappings unsorted."""
    return msgspec.json.encode(plan, enc_hook=dict)


def large_snapshot() -> Snapshot:
    """Eight agents on six nodes, half full, and a queue of rows of all kinds."""
    agents = [
        on(f"agent{number}", [*gpus(4), *cores(range(6)), pool(0, size=8192)], node=f"node{number % 6}")
        for number in range(8)
    ]
    ran = snapshot(agents, [_row("ran", number) for number in range(20)])
    first = decide(ran, Policy(), now_us=NOW_US, seed=0)
    before = after(ran, first)
    running = tuple(
        replace(
            RunningRow.of(one.session_id, one.kernels, ends_us=NOW_US + number * 7_000_000, agents=agents),
            owner=UserId("xyz"[number % 3]),
            project=ProjectId("pq"[number % 2]),
            priority=Priority.LOW,
            started_us=number,
        )
        for number, one in enumerate(first.placements)
    )
    usage = Usage()
    for one in running:
        usage = usage.held(one.milli, user=one.owner, project=one.project, now_us=one.started_us or 0)
    own = Quota(id=QuotaId("project:p"), scope=QuotaScope.PROJECT, name="p", own_slots=ResourceSlot({"cuda.device": 4}))
    return snapshot(
        agents,
        [_row("ses", number) for number in range(28)],
        used=before.used,
        holders=before.holders,
        dependencies={SessionId(f"ses{number}"): SessionState.QUEUED for number in range(28)},
        running=running,
        usage=usage,
        quotas={own.id: own},
    )


def _row(prefix: str, number: int) -> PendingRow:
    asked = ACCELERATED[number % 8] | HOSTED[number % 6]
    links = [(f"ses{number - 1}", "after_ok")] if prefix == "ses" and number % 11 == 10 else []
    pause_us = NOW_US + number if number % 13 == 12 else None
    named = row(
        f"{prefix}{number}", at=number % 7, kernels=1 + number % 3, after=links, not_before_us=pause_us, **asked
    )
    return replace(
        named,
        owner=UserId("xyz"[number % 3]),
        project=ProjectId("pq"[number % 2]),
        priority=list(Priority)[number % 4],
        estimate_ms=None if number % 5 == 0 else number * 60_000,
        limit_ms=None if number % 4 == 0 else number * 90_000,
    )


def some_policies() -> list[Policy]:
    """Every seventh policy."""
    return policies()[::7]


def digest(state: Snapshot) -> str:
    """A hash of the plans of these policies: every order and backfill, several placements."""
    found = hashlib.sha256()
    for policy in some_policies():
        found.update(encoded(decide(state, policy, now_us=NOW_US, seed=0)))
    return found.hexdigest()


if __name__ == "__main__":
    print(digest(shuffled(large_snapshot(), random.Random(sys.argv[1]))))
