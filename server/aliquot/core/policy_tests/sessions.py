"""Sessions of a scenario: the lists `running` and `queue`."""

from collections.abc import Iterable
from decimal import Decimal
from typing import Final

from aliquot.core.model.snapshot import PendingRow, PlacementConstraints, Request
from aliquot.core.policy_tests.scenario import START_US, Running, ScenarioJob, SmallerRequest, with_startable_tasks
from aliquot.core.policy_tests.tables import CPU, MEM, SHARES, WHOLE, Entry, Table, pairs
from aliquot_schema.ids import AgentId, PoolId, ProjectId, SessionId, SlotName, UserId
from aliquot_schema.intervals import Intervals
from aliquot_schema.resources.slots import Unlimited, parse_amount
from aliquot_schema.sessions import (
    CLUSTER_SIZE_MAX,
    DEFAULT_POOL,
    DEFAULT_PROJECT,
    Dependency,
    DependencyCondition,
    Priority,
)
from aliquot_schema.states import SessionState

GB: Final = 10**9
TASKS_MAX: Final = 10_000
_SLOTS: Final = {"gpus": WHOLE, "shares": SHARES, "cpu": CPU, "mem": MEM}


def queue(entry: Entry) -> tuple[ScenarioJob, ...]:
    """The list `queue`. Sessions with equal waits were submitted in the order of the list."""
    found = []
    for place, item in enumerate(entry.items()):
        table = item.table()
        found.append(_job(table, place=place))
        table.finish()
    return tuple(found)


def running(entry: Entry, *, agents: Iterable[str]) -> tuple[Running, ...]:
    """The list `running`."""
    known = tuple(agents)
    found = []
    for place, item in enumerate(entry.items()):
        table = item.table()
        runs = Running(
            job=_job(table, place=place),
            on=table.get("on", lambda where: _agents(where, known), ()),
            since_ms=table.get("since", Entry.duration_ms, 0),
            ends_in_ms=table.maybe("ends_in", Entry.duration_ms),
            preemptions=table.get("preemptions", Entry.whole, 0),
            grace_ms=table.maybe("grace", Entry.duration_ms),
        )
        table.finish()
        if runs.job.row.tasks is not None or runs.job.fallbacks:
            item.refuse("a running session has neither tasks nor fallbacks")
        found.append(runs)
    return tuple(found)


def slots(table: Table) -> dict[SlotName, int]:
    """`gpus`, `shares`, `cpu` and `mem` in base units; missing and zero amounts are left out."""
    found: dict[SlotName, int] = {}
    for key, slot in _SLOTS.items():
        amount = table.get(key, lambda entry, slot=slot: _amount(entry, slot), 0)  # type: ignore[misc]  # bound now
        if amount:
            found[slot] = amount
    return found


def _job(table: Table, *, place: int) -> ScenarioJob:
    request = _request(table)
    waited_ms = table.get("waited", Entry.duration_ms, 0)
    queued_us = START_US - waited_ms * 1000 + place
    fallbacks = table.maybe("fallbacks", lambda entry: _fallbacks(entry, queued_us=queued_us)) or ()
    tasks, max_parallel = table.maybe("tasks", _tasks), table.maybe("max_parallel", Entry.whole)
    row = PendingRow(
        session_id=SessionId(table.need("name", Entry.text)),
        version=1,
        state=SessionState.HELD if table.get("held", Entry.flag, False) else SessionState.QUEUED,
        request=request,
        cluster_size=table.get("cluster_size", _kernels, 1),
        gpu_memory_bytes=table.maybe("gpu_memory_gb", _gigabytes),
        priority=table.get("priority", _priority, Priority.NORMAL),
        queued_us=queued_us,
        not_before_us=table.maybe("not_before", lambda entry: START_US + entry.duration_ms() * 1000),
        excluded_agents=(),
        depends_on=table.get("depends_on", _dependencies, ()),
        owner=UserId(table.get("owner", Entry.text, "somebody")),
        project=ProjectId(table.get("project", Entry.text, str(DEFAULT_PROJECT))),
        estimate_ms=table.maybe("estimate", Entry.duration_ms),
        limit_ms=table.maybe("limit", Entry.duration_ms),
        where=_where(table),
        is_preemptible=table.get("preemptible", Entry.flag, False),
        falls_back_us=fallbacks[0].at_us if fallbacks else None,
        tasks=tasks,
    )
    job = ScenarioJob(
        row=row, runs_ms=table.maybe("runs", Entry.duration_ms), fallbacks=fallbacks, max_parallel=max_parallel
    )
    return job if tasks is None else with_startable_tasks(job, active=0)


def _tasks(entry: Entry) -> Intervals:
    """The indices of a job array: a number of tasks, from 0."""
    count = entry.whole()
    if not 1 <= count <= TASKS_MAX:
        entry.refuse(f"{count} is not between 1 and {TASKS_MAX}")
    return Intervals(((0, count - 1),))


def _fallbacks(entry: Entry, *, queued_us: int) -> tuple[SmallerRequest, ...]:
    """`[{after: 1h, gpus: 1}]`: requests that apply after a wait."""
    found: list[SmallerRequest] = []
    for item in entry.items():
        table = item.table()
        at_us = queued_us + table.need("after", Entry.duration_ms) * 1000
        cluster_size = table.get("cluster_size", _kernels, 1)
        found.append(SmallerRequest(at_us=at_us, request=_request(table), cluster_size=cluster_size))
        table.finish()
        if len(found) > 1 and found[-2].at_us >= at_us:
            item.refuse("a fallback must come later than the one before it")
    return tuple(found)


def _request(table: Table) -> Request:
    request = slots(table)
    if not request:
        table.at.refuse(f"the request is empty; use {', '.join(_SLOTS)}")
    return tuple(sorted(request.items()))


def _where(table: Table) -> PlacementConstraints:
    return PlacementConstraints(
        pool=PoolId(table.get("pool", Entry.text, str(DEFAULT_POOL))),
        labels=_pairs(table, "labels"),
        models=tuple(table.get("models", Entry.names, [])),
        preferred_labels=_pairs(table, "preferred_labels"),
        preferred_models=tuple(table.get("preferred_models", Entry.names, [])),
    )


def _pairs(table: Table, key: str) -> tuple[tuple[str, str], ...]:
    found: dict[str, str] = table.get(key, pairs, {})
    return tuple(sorted(found.items()))


def _amount(entry: Entry, slot: SlotName) -> int:
    amount = entry.checked(lambda: parse_amount(slot, entry.text()))
    if isinstance(amount, Unlimited):
        entry.refuse("a request cannot be unlimited")
    return amount


def _gigabytes(entry: Entry) -> int:
    text = entry.text()
    if len(text) > 12 or not text.replace(".", "", 1).isdecimal():
        entry.refuse(f"{text[:32]!r} is not a number of gigabytes")
    return int(Decimal(text) * GB)


def _kernels(entry: Entry) -> int:
    count = entry.whole()
    if not 1 <= count <= CLUSTER_SIZE_MAX:
        entry.refuse(f"{count} is not between 1 and {CLUSTER_SIZE_MAX}")
    return count


def _priority(entry: Entry) -> Priority:
    names = {priority.name.lower(): priority for priority in Priority}
    return names[entry.one_of(names)]


def _dependencies(entry: Entry) -> tuple[Dependency, ...]:
    """`{prep: after_ok}`."""
    return tuple(
        Dependency(
            session_id=SessionId(name), condition=DependencyCondition(condition.one_of(list(DependencyCondition)))
        )
        for name, condition in entry.pairs()
    )


def _agents(entry: Entry, known: tuple[str, ...]) -> tuple[AgentId, ...]:
    for name in entry.names():
        if name not in known:
            entry.refuse(f"agent {name[:64]!r} is unknown; use one of {', '.join(known) or 'none'}")
    return tuple(AgentId(name) for name in entry.names())
