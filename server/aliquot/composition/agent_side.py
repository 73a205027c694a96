"""The agent side: everything through which a server that leads reaches agents."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING

from aliquot.composition.disk import own_disk
from aliquot.composition.own_agents import agent_factory
from aliquot.errors import ConfigurationError
from aliquot.execution.combined import CombinedExecutor
from aliquot.execution.devices.node_devices import NodeDevices
from aliquot.execution.local import LocalExecutor
from aliquot.execution.remote.executor import RemoteExecutor
from aliquot.execution.remote.keys import AgentKeys
from aliquot.execution.remote.timing import Timing
from aliquot.service.ports import Executor
from aliquot.service.registration import elsewhere
from aliquot.service.state import State
from aliquot.settings import Settings
from aliquot_schema.ids import AgentId
from aliquot_schema.states import AgentState

if TYPE_CHECKING:
    from aliquot.execution.ray.supervisor import GatewaySupervisor


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSide:
    """Made anew for each term."""

    executor: Executor
    """All of them."""
    local: LocalExecutor
    remote: RemoteExecutor
    ray: "GatewaySupervisor | None"
    own: frozenset[AgentId]
    """Agents of the server's own process."""
    expected: frozenset[AgentId]
    """Others that were there before, and may be again."""

    async def start(self) -> None:
        """Begin to look for agents."""
        await self.executor.start()
        if self.ray is not None:
            self.ray.start()

    async def close(self) -> None:
        """Let go of them; kernels run on. What fails to close keeps nothing else from it."""
        async with AsyncExitStack() as rest:
            rest.push_async_callback(self.executor.close)
            if self.ray is not None:
                rest.push_async_callback(self.ray.close)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPlan:
    """What it is made of."""

    settings: Settings
    nodes: tuple[NodeDevices, ...]
    """Of the agents of the server's own process."""
    keys: AgentKeys
    now_us: Callable[[], int]


def agent_side(plan: AgentPlan, state: State, *, is_shared: bool, epoch: int) -> AgentSide:
    """Make it; nothing is opened yet.

    Args:
        is_shared: whether other servers may have led before: their agents are expected too, by whatever key.
        epoch: of the term that it is made for.
    Raises:
        ConfigurationError: the settings, the keys or the agents of this host are not as they have to be.
    """
    refuse_moved(plan.nodes, state)
    state.space.look = own_disk(plan.settings)
    settings, own = plan.settings, frozenset(node.agent_id for node in plan.nodes)
    local = LocalExecutor({node.agent_id: agent_factory(settings, node, plan.now_us) for node in plan.nodes})
    expected = agents_expected(plan.keys, state, by_any=is_shared or settings.executor == "ray") - own
    remote = RemoteExecutor(
        keys=plan.keys,
        timing=Timing(beat_s=settings.agent_beat_s, lost_s=settings.agent_lost_s),
        now_us=plan.now_us,
        expected=expected,
        taken_ids=own,
        software_version=f"aliquot {version('aliquot')}",
        objection=lambda told: elsewhere(state, told.id, node_id=told.node_id, boot_id=told.boot_id),
        epoch=epoch if is_shared else 0,
    )
    return AgentSide(
        executor=CombinedExecutor(dict.fromkeys(own, local), otherwise=remote),
        local=local,
        remote=remote,
        ray=ray_gateway(settings, remote, epoch=epoch if is_shared else 0),
        own=own,
        expected=expected,
    )


def refuse_moved(nodes: tuple[NodeDevices, ...], state: State) -> None:
    """Refuse to go on, on this machine, with agents that hold devices of another one.

    Raises:
        ConfigurationError: one does.
    """
    for own in nodes:
        words = elsewhere(state, own.agent_id, node_id=own.node.node_id, boot_id=own.node.boot_id)
        if words is not None:
            raise ConfigurationError(f"{words}; --no-local-agents starts a server to say so")


def agents_expected(keys: AgentKeys, state: State, *, by_any: bool) -> frozenset[AgentId]:
    """Agents that were connected when the last server ended, and may be so again: by a key, or by any.

    Raises:
        ConfigurationError: the file of their keys cannot be read.
    """
    try:
        known = keys.known()
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"the agents' keys cannot be read: {error}") from None
    there = (AgentState.ALIVE, AgentState.SUSPECT)
    missed = frozenset(agent.id for agent in state.agents.values() if agent.state in there)
    return missed if by_any else missed & known


def ray_gateway(settings: Settings, agents: RemoteExecutor, *, epoch: int) -> "GatewaySupervisor | None":
    """The way to the agents of a Ray cluster, not opened yet; None without one.

    Raises:
        ConfigurationError: the settings do not say where it is, or Ray is not installed.
    """
    if settings.executor != "ray":
        return None
    # Imported here: a start without Ray does without it.
    from aliquot.execution.ray.node.preparation import check_address, check_ray_installed
    from aliquot.execution.ray.node.token_file import checked_token
    from aliquot.execution.ray.supervisor import GatewaySupervisor

    if settings.ray_head is None:
        raise ConfigurationError("ray-head: --executor ray needs the address of the cluster's head, HOST:PORT")
    if settings.demo or settings.accelerators:
        raise ConfigurationError("accelerators: on Ray each node says what it has; give them to `aliquot node start`")
    check_ray_installed()
    check_address(settings.ray_head)
    token = None if settings.ray_token_file is None else checked_token(settings.ray_token_file)
    return GatewaySupervisor(settings.ray_head, agents=agents, token_file=token, epoch=epoch)
