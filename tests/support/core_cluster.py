"""Builders of snapshots for scheduler tests: agents, queue rows, and held resources."""

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from aliquot.core.allocation.device_map import DeviceMap
from aliquot.core.allocation.layout import DeviceLayout
from aliquot.core.allocation.occupancy import added, occupancy_of
from aliquot.core.model.plan import Plan
from aliquot.core.model.policy import Policy
from aliquot.core.model.queue import Queue
from aliquot.core.model.snapshot import AgentRow, PendingRow, Snapshot
from aliquot.core.scheduler.cache import PassCache
from aliquot.core.scheduler.decide import decide, order_inputs
from aliquot.core.scheduler.ordering import OrderInputs
from aliquot_schema.ids import AgentId, DeviceId, NodeId, SessionId
from aliquot_schema.policies import Weights
from aliquot_schema.reasons import Verdict
from aliquot_schema.resources.devices import Device
from aliquot_schema.sessions import Dependency, DependencyCondition, Priority
from aliquot_schema.states import SessionState
from allocation_devices import ask, gpus

NOW_US = 1_000_000_000


def on(name: str, devices: Sequence[Device] = (), *, node: str = "", is_open: bool = True) -> AgentRow:
    """An agent, on its own node unless one is named."""
    return AgentRow(
        id=AgentId(name),
        node_id=NodeId(node or f"node-{name}"),
        layout=DeviceLayout.of(devices or gpus(2)),
        is_open=is_open,
    )


def row(name: str, *, at: int = 0, kernels: int = 1, after: Sequence[tuple[str, str]] = (), **more: Any) -> PendingRow:
    """A row with the request given by slot: `row("a", cuda_device="1", cpu="2")`."""
    fields = {key: more.pop(key) for key in tuple(more) if key in PendingRow.__struct_fields__}
    request = ask(**(more or {"cuda_device": "1"}))
    plain = PendingRow(
        session_id=SessionId(name),
        version=1,
        state=SessionState.QUEUED,
        request=tuple(sorted(request.items())),
        cluster_size=kernels,
        gpu_memory_bytes=None,
        priority=Priority.NORMAL,
        queued_us=at,
        not_before_us=None,
        excluded_agents=(),
        depends_on=tuple(
            Dependency(session_id=SessionId(other), condition=DependencyCondition(condition))
            for other, condition in after
        ),
    )
    return replace(plain, **fields)


def snapshot(agents: Iterable[AgentRow], queue: Iterable[PendingRow], **more: Any) -> Snapshot:
    """Nothing is held except `used` and `holders`."""
    return Snapshot(revision=1, agents=tuple(agents), queue=tuple(queue), **({"used": {}} | more))


def standing(
    state: Snapshot, *, weights: Weights | None = None, now_us: int = NOW_US, is_ready: bool = True
) -> OrderInputs:
    """Order inputs of a state's queue; rows that are not ready add nothing to the backlog."""
    queue = Queue.of(state.queue)
    ready = np.full(len(queue), int(is_ready), dtype=np.int64)
    policy = Policy(weights=weights or Weights())
    return order_inputs(state, policy, queue=queue, ready=ready, now_us=now_us, cache=PassCache())[0]


def decided(agents: Iterable[AgentRow], queue: Iterable[PendingRow], *, now_us: int = NOW_US, **more: Any) -> Plan:
    """One pass with the default policy."""
    return decide(snapshot(agents, queue, **more), Policy(), now_us=now_us, seed=0)


def placed(plan: Plan) -> list[str]:
    """Sessions that start, in order."""
    return [str(placement.session_id) for placement in plan.placements]


def places(plan: Plan) -> dict[str, list[tuple[str, dict[str, dict[str, int]]]]]:
    """Agent and plain spec of every rank, by session."""
    return {
        str(placement.session_id): [
            (str(kernel.agent_id), {str(slot): dict(amounts) for slot, amounts in kernel.spec.items()})
            for kernel in placement.kernels
        ]
        for placement in plan.placements
    }


def waits(plan: Plan, name: str) -> Verdict:
    """Why a session waits."""
    return plan.verdicts[SessionId(name)]


def after(before: Snapshot, plan: Plan, *, queue: Iterable[PendingRow] = ()) -> Snapshot:
    """The state after a plan is applied."""
    layouts = {agent.id: agent.layout for agent in before.agents}
    used: dict[NodeId, Mapping[DeviceId, int]] = dict(before.used)
    holders: dict[NodeId, dict[DeviceId, tuple[SessionId, ...]]] = {}
    for placement in plan.placements:
        for kernel in placement.kernels:
            more = occupancy_of((kernel.spec,), layouts[kernel.agent_id].devices.values())
            used[kernel.node_id] = added(used.get(kernel.node_id, {}), more)
            on_node = holders.setdefault(kernel.node_id, dict(before.holders.get(kernel.node_id, {})))
            for device_id in more:
                on_node[device_id] = (*on_node.get(device_id, ()), placement.session_id)
    return replace(before, queue=tuple(queue), used=used, holders={**before.holders, **holders})


def free_map(agent: AgentRow, state: Snapshot) -> DeviceMap:
    """What an agent has left."""
    return DeviceMap(agent.layout, state.used.get(agent.node_id, {}))


def shuffled(state: Snapshot, dice: random.Random) -> Snapshot:
    """The same snapshot with every unordered collection shuffled."""
    agents = [
        replace(agent, layout=DeviceLayout.of(_mixed(agent.layout.devices.values(), dice))) for agent in state.agents
    ]
    return replace(
        state,
        agents=tuple(_mixed(agents, dice)),
        used={node_id: dict(_mixed(used.items(), dice)) for node_id, used in _mixed(state.used.items(), dice)},
        queue=tuple(_mixed(state.queue, dice)),
        dependencies=dict(_mixed(state.dependencies.items(), dice)),
        holders={
            node_id: {device: tuple(_mixed(sessions, dice)) for device, sessions in _mixed(held.items(), dice)}
            for node_id, held in _mixed(state.holders.items(), dice)
        },
        running=tuple(_mixed(state.running, dice)),
        quotas=dict(_mixed(state.quotas.items(), dice)),
        usage=replace(state.usage, balances=dict(_mixed(state.usage.balances.items(), dice))),
    )


def _mixed(items: Iterable[Any], dice: random.Random) -> list[Any]:
    mixed = list(items)
    dice.shuffle(mixed)
    return mixed
