"""Observed GPUs: who uses which GPU now, by the processes on it, and what a week of that adds up to."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from aliquot.core.observed_use import HOUR_MS, GpuObservation, ObservedWeek, fair_parts
from aliquot.service.state.state import State
from aliquot_schema.cluster.agents import Agent
from aliquot_schema.ids import DeviceId, NodeId, natural_key
from aliquot_schema.policies import IdleAction, IdleStep
from aliquot_schema.resources.devices import Device, DeviceReading
from aliquot_schema.resources.slots import is_accelerator
from aliquot_schema.states import AgentState
from aliquot_schema.views.observation import GpuPersonView, ObservedGpuView, ObservedPersonView, ObservedWeekView

WEEK_PREFIX: Final = "observed/"
WEEK: Final = re.compile(r"\d{4}-W\d{2}")
UNKNOWN: Final = "unknown"
"""Processes whose account the agent cannot tell."""


def week_of(now: datetime) -> str:
    """The ISO week of a time, like `2026-W48`."""
    year, week, _ = now.isocalendar()
    return f"{year}-W{week:02}"


def observed_gpus(state: State) -> tuple[ObservedGpuView, ...]:
    """Every GPU of agents that are connected, with who uses it."""
    found = []
    for agent, device, reading in _gpus(state):
        people = _people(state, agent, device, reading)
        found.append(
            ObservedGpuView(
                node_id=agent.node_id,
                hostname=agent.hostname,
                gpu_id=device.id,
                name=device.name,
                model=device.model,
                utilization_pct=None if reading is None else reading.utilization_pct,
                memory_used_bytes=None if reading is None else reading.memory_used_bytes,
                people=tuple(people[name] for name in sorted(people, key=natural_key)),
                sessions=tuple(sorted(state.holders.get(agent.node_id, {}).get(device.id, ()))),
            )
        )
    return tuple(found)


def seen_gpus(state: State) -> tuple[GpuObservation, ...]:
    """The same, for the sums of a week."""
    return tuple(
        GpuObservation(
            people=tuple(sorted({person.user for person in gpu.people})), utilization_pct=gpu.utilization_pct
        )
        for gpu in observed_gpus(state)
    )


def recorded_week(state: State, week: str) -> ObservedWeek | None:
    """What was recorded of a week; None = nothing."""
    action = state.actions.get(f"{WEEK_PREFIX}{week}")
    return None if action is None else ObservedWeek.of(json.loads(action.facts["use"]))


def would_lose(state: State) -> tuple[str, ...]:
    """Sessions that would lose their unused GPUs now if the policy's idle action were not `observe`."""
    due = [case for case in state.idle_cases.open() if case.step is IdleStep.DUE and case.action is IdleAction.OBSERVE]
    return tuple(case.session_id for case in due)


def observed_week(state: State, week: str | None, *, now: datetime) -> ObservedWeekView | None:
    """The figures of a week; `week=None` is the present one. None if nothing was recorded."""
    week, present = week or week_of(now), week_of(now)
    found = recorded_week(state, week)
    if found is None:
        return None
    return ObservedWeekView(
        week=week,
        gpu_hours=found.gpu_ms / HOUR_MS,
        used_hours=sum(one.held_ms for one in found.people.values()) / HOUR_MS,
        idle_hours=sum(one.idle_ms for one in found.people.values()) / HOUR_MS,
        people=tuple(
            ObservedPersonView(user=one.person, gpu_hours=one.held_h, idle_hours=one.idle_h, fair_hours=one.fair_h)
            for one in fair_parts(found)
        ),
        would_lose=would_lose(state) if week == present else (),
    )


def _gpus(state: State) -> Iterator[tuple[Agent, Device, DeviceReading | None]]:
    """Each GPU once, in natural order; slices (MIG) in the place of a GPU that is not listed itself."""
    alive = [agent for agent in state.agents.values() if agent.state is AgentState.ALIVE]
    listed = {(agent.node_id, device.id) for agent in alive for device in agent.devices}
    seen = set[tuple[NodeId, DeviceId]]()
    for agent in sorted(alive, key=lambda one: natural_key(one.id)):
        for device in agent.devices:
            key, is_part = (agent.node_id, device.id), (agent.node_id, device.parent) in listed
            if key not in seen and not is_part and any(map(is_accelerator, device.costs)):
                seen.add(key)
                yield agent, device, state.readings.get((agent.id, device.id))


def _people(state: State, agent: Agent, device: Device, reading: DeviceReading | None) -> dict[str, GpuPersonView]:
    """Those whose processes are on a GPU, or whose sessions hold it, by name.

    A process of a job counts for the session's owner; another one for the user of its Unix account, if one user alone
    has it, else for the account.
    """
    counts: dict[str, int] = defaultdict(int)
    memory: dict[str, int] = defaultdict(int)
    for process in (reading.processes if reading is not None else None) or ():
        if process.is_job:
            continue
        account = process.user or UNKNOWN
        owners = state.people.owners_of(account)
        name = owners[0] if len(owners) == 1 else account
        counts[name] += 1
        memory[name] += process.memory_bytes or 0
    for session_id in state.holders.get(agent.node_id, {}).get(device.id, ()):
        session = state.sessions.get(session_id)
        if session is not None:
            counts[session.owner] += 0
    return {
        name: GpuPersonView(user=name, processes=count, memory_bytes=memory[name]) for name, count in counts.items()
    }
