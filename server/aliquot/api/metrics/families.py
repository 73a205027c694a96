"""Metric families of the cluster: GPUs, agents, queue, sessions and devices.

Only the leader exports them, so that a sum over all servers counts nothing twice. Each accelerator counts once, however
many agents report it. 8,000 devices make 88,000 samples, so all samples of a device share one label mapping.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from msgspec import Struct
from prometheus_client.core import Metric
from prometheus_client.samples import Sample

from aliquot.api.metrics.server import gauge, states
from aliquot.core.foresight.accuracy import ALL
from aliquot.service.metrics.cluster_view import ClusterView
from aliquot.service.metrics.metrics import DeviceTime, Measures
from aliquot.service.state.indexes import tasks_waiting
from aliquot.service.views.agents import HOST_SLOTS
from aliquot.service.views.gpus import COUNTED
from aliquot_schema.cluster.agents import Agent
from aliquot_schema.ids import AgentId, DeviceId, NodeId, natural_key
from aliquot_schema.reasons import Reason
from aliquot_schema.resources.devices import Device, DeviceHealth, DeviceReading
from aliquot_schema.states import ENDED, AgentState, SessionState

FORECAST_GROUPS: Final = ("size: ", "queue: ", "told", "new user")
"""Beginnings of the names of exported groups; those of policy versions would grow without bound."""
GONE: Final = DeviceHealth.GONE

LIVE: Final = tuple(state for state in SessionState if state not in ENDED)
LABELS: Final = ("node", "agent", "device", "model")
_SECONDS: Final = "Counted by the leader, from the beginning of its term."


class Accelerator(Struct, frozen=True, kw_only=True):
    """One accelerator, or a slice of one that is not itself listed."""

    node_id: NodeId
    agent_id: AgentId
    """If several agents report it, the first reachable one in natural order; agents that it is leaving come last."""
    device: Device
    reading: DeviceReading | None
    held: float
    """Share that is held, 0 to 1."""
    is_blocked: bool
    """Whether processes that Aliquot did not start use it, so that it is not allocated."""

    @property
    def is_offered(self) -> bool:
        """Whether its free share can be allocated."""
        return self.device.health is DeviceHealth.HEALTHY and not self.is_blocked


def physical_devices(view: ClusterView) -> tuple[Accelerator, ...]:
    """Accelerators of present agents; reachable agents first, then in natural order."""
    found: dict[tuple[NodeId, DeviceId], Accelerator] = {}
    for agent in _present(view):
        for device in agent.devices:
            if device.kind not in HOST_SLOTS and device.health is not GONE:
                place = (agent.node_id, device.id)
                if place not in found or found[place].device.health is DeviceHealth.LEAVING:
                    found[place] = _part(view, agent, device)
    return tuple(part for part in found.values() if (part.node_id, part.device.parent) not in found)


def _present(view: ClusterView) -> Iterator[Agent]:
    counted = (agent for agent in view.agents if agent.state in COUNTED)
    yield from sorted(counted, key=lambda agent: (agent.id not in view.reachable, natural_key(agent.id)))


def _part(view: ClusterView, agent: Agent, device: Device) -> Accelerator:
    used = view.used.get(agent.node_id, {}).get(device.id, 0)
    return Accelerator(
        node_id=agent.node_id,
        agent_id=agent.id,
        device=device,
        reading=view.readings.get((agent.id, device.id)) if agent.id in view.reachable else None,
        held=min(used, device.budget) / device.budget,
        is_blocked=device.id in view.blocked.get(agent.node_id, {}),
    )


def gpu_families(parts: tuple[Accelerator, ...]) -> Iterator[Metric]:
    """Capacity of all GPUs."""
    offered = [part for part in parts if part.is_offered]
    free = sum(1 - part.held for part in offered)
    found = {
        "held": sum(part.held for part in parts),
        "free": free,
        "out_of_service": sum(1 - part.held for part in parts if not part.is_offered),
    }
    text = "GPUs, counted by their shares: held, free, or free but out of service."
    yield states("gpus", text, "status", known=found, found=found)
    fragmented = sum(1 - part.held for part in offered if part.held)
    text = "Share of the free GPU capacity that is on partly held GPUs, so that it makes no whole GPU."
    yield gauge("gpu_fragmentation_ratio", text, fragmented / free if free else 0.0)


def fleet_families(view: ClusterView) -> Iterator[Metric]:
    """Agents, and users who hold devices."""
    found = Counter[str](agent.state for agent in view.agents)
    yield states("agents", "Agents by state.", "state", known=AgentState, found=found)
    draining = sum(agent.draining for agent in view.agents if agent.state is not AgentState.LEFT)
    yield gauge("agents_draining", "Agents that are being drained, so that nothing new is placed on them.", draining)
    yield gauge("users_holding", "Users who hold any share of a device.", view.users_holding)


def queue_families(view: ClusterView) -> Iterator[Metric]:
    """Waiting sessions and their reasons."""
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
    text = "Waiting time of the session that has waited longest; 0 when none is queued."
    yield gauge("queue_oldest_wait_seconds", text, (view.now_us - oldest_us) / 1e6)
    reasons = Counter[str](verdict.reason for verdict in view.verdicts.values())
    text = "Waiting sessions by the reason of the last pass; a job array counts once."
    yield states("queue_reasons", text, "reason", known=Reason, found=reasons)


def activity_families(measures: Measures) -> Iterator[Metric]:
    """Counts since this server became the leader."""
    seen, passes, promises = measures.sessions, measures.passes, measures.promises
    for metric in (
        seen.submitted,
        seen.started,
        seen.ended,
        seen.failures,
        seen.requeues,
        seen.preemptions,
        seen.idle_steps,
        seen.waits,
        seen.durations,
        passes.seconds,
        passes.items,
        promises.made,
        promises.ended,
        measures.forecasts.answers,
        measures.forecasts.outcomes,
        measures.forecasts.seconds,
        measures.forecasts.restarts,
    ):
        yield from metric.collect()


def forecast_families(view: ClusterView) -> Iterator[Metric]:
    """How right the forecasts of the last 90 days were, and how old the newest are."""
    report = view.forecasts
    groups = [one for one in report.groups if one.group == ALL or one.group.startswith(FORECAST_GROUPS)]
    families = (
        ("forecast_inside_ratio", "Share of forecasts that said to wait whose start came inside the band.", "inside"),
        ("forecast_judged", "Forecasts that said to wait, and whose outcome is known.", "n"),
    )
    for name, text, field in families:
        family = Metric(f"aliquot_{name}", text, "gauge")
        family.samples = [Sample(family.name, {"group": one.group}, getattr(one, field)) for one in groups]
        yield family
    made = report.waited + report.started_now + report.unknown
    yield gauge("forecast_unknown_ratio", "Share of told forecasts that are unknown.", report.unknown / max(made, 1))
    age_s = 0.0 if view.forecasts_us is None else max(view.now_us - view.forecasts_us, 0) / 1e6
    text = "Age of the newest forecasts of the whole queue, which are renewed after changes; 0 when none were made."
    yield gauge("forecast_age_seconds", text, age_s)


class _LabelledPart(Struct, frozen=True):
    part: Accelerator
    labels: dict[str, str]


def device_families(parts: tuple[Accelerator, ...], spent: DeviceTime) -> Iterator[Metric]:
    """All families of devices."""
    labelled = [_LabelledPart(part, _labels(part)) for part in parts]
    for name, text, of in _MEASURED:
        yield _family(name, text, "gauge", ((item, of(item.part)) for item in labelled))
    times = [(item, spent.of(item.part.agent_id, item.part.device.id)) for item in labelled]
    text = f"Seconds that the device was held, times the held share. {_SECONDS}"
    yield _family("held_seconds", text, "counter", ((item, time.held) for item, time in times))
    text = f"Seconds that the device was held, times its utilization, at most the held share. {_SECONDS}"
    yield _family("used_seconds", text, "counter", ((item, time.used) for item, time in times))
    text = f"Seconds that the device was held and idle. {_SECONDS}"
    yield _family("idle_held_seconds", text, "counter", ((item, time.idle) for item, time in times))


def _labels(part: Accelerator) -> dict[str, str]:
    values = (part.node_id, part.agent_id, part.device.id, part.device.model)
    return dict(zip(LABELS, values, strict=True))


def _family(name: str, text: str, kind: str, values: Iterable[tuple[_LabelledPart, float | None]]) -> Metric:
    family = Metric(f"aliquot_device_{name}", text, kind)
    sample_name = f"{family.name}_total" if kind == "counter" else family.name
    family.samples = [Sample(sample_name, item.labels, value) for item, value in values if value is not None]
    return family


def _read(of: Callable[[DeviceReading], float | None]) -> Callable[[Accelerator], float | None]:
    return lambda part: None if part.reading is None else of(part.reading)


def _ratio(reading: DeviceReading) -> float | None:
    return None if reading.utilization_pct is None else reading.utilization_pct / 100


def _is_healthy(health: DeviceHealth) -> bool | None:
    """None for a device that is leaving: it was taken out of the configuration and must not raise an alert."""
    return None if health is DeviceHealth.LEAVING else health is DeviceHealth.HEALTHY


_MEASURED: Final[tuple[tuple[str, str, Callable[[Accelerator], float | None]], ...]] = (
    ("utilization_ratio", "Utilization of the device at its last measurement, 0 to 1.", _read(_ratio)),
    ("memory_used_bytes", "Memory of the device in use.", _read(lambda reading: reading.memory_used_bytes)),
    ("memory_bytes", "Memory of the device.", lambda part: part.device.memory_bytes),
    ("temperature_celsius", "Temperature of the device.", _read(lambda reading: reading.temperature_c)),
    ("power_watts", "Power that the device draws.", _read(lambda reading: reading.power_w)),
    ("held_ratio", "Share of the device that is held, 0 to 1.", lambda part: part.held),
    (
        "healthy",
        "1 when the device itself is healthy, so that its free share may be allocated.",
        lambda part: _is_healthy(part.device.health),
    ),
    (
        "blocked",
        "1 when processes that Aliquot did not start use the device, so that it is not allocated.",
        lambda part: part.is_blocked,
    ),
)
"""A device without a value has no sample."""
