"""Random requests of a run's users: sessions of all kinds, and changes of everything changeable."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from random import Random
from typing import Any

from aliquot.service.use_cases import UseCases
from aliquot_schema.errors import NotFound, StateConflict
from aliquot_schema.quotas import QuotaScope
from aliquot_schema.requests import Caller, NewFallback, NewSession
from aliquot_schema.sessions import HELD_BY_ARRAY
from aliquot_schema.views.admin import NewQuota
from aliquot_schema.views.preview import NewExternalAllocation

Change = Callable[[UseCases, Caller], Awaitable[Any]]

ORDERS = ("fair_share", "priority", "fcfs", "sjf")
PLACEMENTS = ("least_waste", "pack", "spread", "best_fit")
PRIORITIES = ("low", "normal", "high", "critical")


def new_session(random: Random, *, key: str, known: Sequence[str]) -> NewSession:
    """Any kind of session; some depend on a known one."""
    asked: dict[str, Any] = {
        "slots": random.choice(([("cuda.device", "1")], [("cuda.device", "2")], [("cuda.shares", "0.5")])),
        "cluster_size": random.choice((1, 1, 1, 2, 3)),
        "priority": random.choice(PRIORITIES),
        "max_retries": random.choice((0, 0, 2)),
        "preemptible": random.random() < 0.4,
        "retries_own_failures": random.random() < 0.3,
        "held": random.random() < 0.1,
    }
    if random.random() < 0.5:
        asked["cluster_size_min"] = max(asked["cluster_size"] - 1, 1)
    kind = random.randrange(6)
    if kind == 0:
        asked |= {"array": f"0-{random.randrange(1, 5)}", "max_parallel": random.choice((None, 1, 2)), "held": False}
    elif kind == 1 and known:
        asked["depends_on"] = [(random.choice(known), random.choice(("after_ok", "after_any", "after_fail")))]
    elif kind == 2:
        asked |= {"checkpoint_signal": "SIGUSR1", "grace": 5.0, "preemptible": True}
    elif kind == 3:
        asked["fallbacks"] = [NewFallback(slots=[("cuda.shares", "0.2")], after_s=10.0, cluster_size=1)]
    return NewSession(argv=("run", key), shell=None, idempotency_key=key, **asked)


def random_change(random: Random, *, session_id: str, machine: str) -> tuple[str, Change]:
    """A random change: its description and its action."""
    priority = random.choice(PRIORITIES)
    changes = {"order": random.choice(ORDERS), "placement": random.choice(PLACEMENTS)}
    limit = str(random.randrange(1, 6))
    quota = NewQuota(scope=QuotaScope.USER, name=random.choice(("ann", "bob")), max_slots=[("cuda.device", limit)])
    evicts = random.random() < 0.5
    job = random.choice(("mine", "yours"))
    allocation = NewExternalAllocation(
        job_id=job, gpu_count=random.choice(("1", "1", "2", "0.5")), lease=random.choice((20.0, 300.0))
    )
    session = f"session {session_id}"
    acts: list[tuple[str, Change]] = [
        (f"cancel {session}", lambda cases, caller: cases.sessions.cancel_session(caller, session_id, None)),
        (f"cancel {session}", lambda cases, caller: cases.sessions.cancel_session(caller, session_id, None)),
        (f"hold {session}", lambda cases, caller: cases.sessions.hold_session(caller, session_id, None)),
        (f"release {session}", lambda cases, caller: cases.sessions.release_session(caller, session_id, None)),
        (f"retry {session}", lambda cases, caller: cases.sessions.retry_session(caller, session_id, None)),
        (
            f"priority {priority} for {session}",
            lambda cases, caller: cases.sessions.update_session_priority(caller, session_id, priority, None),
        ),
        (f"policy {changes}", lambda cases, caller: cases.administration.policy.update_policy(caller, changes, None)),
        (
            f"drain {machine}, evicts={evicts}",
            lambda cases, caller: cases.administration.agents.drain_agent(caller, machine, note=None, evicts=evicts),
        ),
        (f"resume {machine}", lambda cases, caller: cases.administration.agents.resume_agent(caller, machine)),
        (f"quota {quota}", lambda cases, caller: cases.administration.quotas.set_quota(caller, quota, None)),
        (
            f"{machine} schedulable={evicts}",
            lambda cases, caller: cases.administration.agents.set_agent_schedulable(
                caller, machine, schedulable=evicts, note=None
            ),
        ),
        (f"{allocation}", lambda cases, caller: cases.external_allocations.allocate(caller, allocation)),
        (f"{allocation}", lambda cases, caller: cases.external_allocations.allocate(caller, allocation)),
        (f"release the external job {job}", lambda cases, caller: cases.external_allocations.release(caller, job)),
        ("stop the orchestrator", lambda cases, caller: cases.administration.pause.stop_orchestrator(caller, None)),
        ("start the orchestrator", lambda cases, caller: cases.administration.pause.start_orchestrator(caller, None)),
    ]
    return random.choice(acts)


async def remove_blockers(cases: UseCases, caller: Caller) -> None:
    """Undo what would keep sessions pending forever: drains, quotas, holds, and a global stop."""
    await cases.administration.pause.start_orchestrator(caller, None)
    for name in list(cases.state.agents):
        await cases.administration.agents.resume_agent(caller, name)
        await cases.administration.agents.set_agent_schedulable(caller, name, schedulable=True, note=None)
    for quota in list(cases.state.quotas.values()):
        with suppress(NotFound):
            await cases.administration.quotas.remove_quota(caller, quota.scope, quota.name, None)
    for session in list(cases.state.sessions.values()):
        if session.is_pending and session.held_by not in (None, HELD_BY_ARRAY):
            # It ends by itself if its dependency was just canceled.
            with suppress(StateConflict):
                await cases.sessions.cancel_session(caller, session.id, None)
