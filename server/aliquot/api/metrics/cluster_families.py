"""The cluster: its GPUs, its agents, its queue, and what happened to sessions. Told by the server that leads alone, so
that a sum over all servers counts nothing twice."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from prometheus_client.core import Metric

from aliquot.api.metrics.families import counter, gauge, histogram, states
from aliquot.api.metrics.physical_devices import Part
from aliquot.service.demand import tasks_waiting
from aliquot.service.measuring.cluster_view import ClusterView
from aliquot.service.measuring.measures import Measures
from aliquot_schema.reasons import Reason
from aliquot_schema.states import ENDED, AgentState, SessionState

LIVE: Final = tuple(state for state in SessionState if state not in ENDED)


def gpu_families(parts: tuple[Part, ...]) -> Iterator[Metric]:
    """Capacity of all GPUs together."""
    offered = [part for part in parts if part.is_offered]
    free = sum(1 - part.held for part in offered)
    found = {
        "held": sum(part.held for part in parts),
        "free": free,
        "out_of_service": sum(1 - part.held for part in parts if not part.is_offered),
    }
    text = "GPUs, counted by their parts: held by somebody, free, or free and not given to anybody."
    yield states("gpus", text, "status", known=found, found=found)
    broken = sum(1 - part.held for part in offered if part.held)
    text = (
        "Of what is free of GPUs, the part that is on GPUs which somebody holds a part of: no whole GPU is to be had."
    )
    yield gauge("gpu_fragmentation_ratio", text, broken / free if free else 0.0)


def fleet_families(view: ClusterView) -> Iterator[Metric]:
    """Agents, and people."""
    found = Counter[str](agent.state for agent in view.agents)
    yield states("agents", "Agents, by how the server sees them.", "state", known=AgentState, found=found)
    draining = sum(agent.draining for agent in view.agents if agent.state is not AgentState.LEFT)
    yield gauge("agents_draining", "Agents that are given nothing new, because somebody drains them.", draining)
    yield gauge("users_holding", "Users who hold a part of any device.", view.users_holding)


def queue_families(view: ClusterView) -> Iterator[Metric]:
    """What waits, and why."""
    found: Counter[str] = Counter()
    oldest_us = view.now_us
    for session in view.sessions:
        if session.state in ENDED:
            continue
        found[session.state] += tasks_waiting(session)
        if session.state is SessionState.QUEUED:
            oldest_us = min(oldest_us, session.queued_us)
    text = "Sessions and tasks of job arrays that have not ended, by state."
    yield states("sessions", text, "state", known=LIVE, found=found)
    text = "How long the session has waited that waits longest; 0 when none is queued."
    yield gauge("queue_oldest_wait_seconds", text, (view.now_us - oldest_us) / 1e6)
    reasons = Counter[str](verdict.reason for verdict in view.verdicts.values())
    text = "Sessions that wait, by the reason that the last pass gave; a job array is one."
    yield states("queue_reasons", text, "reason", known=Reason, found=reasons)


def course_families(measures: Measures) -> Iterator[Metric]:
    """What happened while this server led."""
    seen, passes = measures.sessions, measures.passes
    yield counter("sessions_submitted", "Sessions submitted, and tasks of job arrays begun.", seen.submitted)
    yield counter("sessions_started", "Attempts of sessions that began to run.", seen.started)
    yield counter("sessions_ended", "Sessions that ended, by outcome.", seen.ended)
    yield counter("session_failures", "Sessions that failed, by reason.", seen.failures)
    yield counter("session_requeues", "Attempts after which the session was queued again.", seen.requeues)
    yield counter("preemptions", "Sessions that were asked to make room, by cause.", seen.preemptions)
    yield histogram("session_wait_seconds", "From submission to the first grant of devices.", seen.waits)
    text = "From the start of the last attempt to the end, by outcome."
    yield histogram("session_duration_seconds", text, seen.durations)
    text = "From a snapshot of the cluster until the plan made from it is carried out."
    yield histogram("scheduling_pass_seconds", text, passes.seconds)
    text = "Placements of plans: carried out, or refused when they were checked again on the newest state."
    yield counter("placements", text, passes.items)
    yield counter("reservations", "Promises of a start that passes made to waiting sessions.", measures.promises.made)
    text = "What became of these promises: kept, late, or withdrawn before the session was given devices."
    yield counter("reservations_ended", text, measures.promises.ended)
