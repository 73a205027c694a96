"""Launch orders: what an agent runs for each rank of an attempt, made from the session, its leases and its agents.

`LaunchAttempt` is read from the unit of work once; the orders are functions of it. `start` moves granted sessions to
`allocating` and returns their orders, so that a grant and its launch are one transaction.
"""

import hmac
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from zlib import crc32

from msgspec import Struct
from msgspec.structs import replace

from aliquot.core import transitions
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot_schema.cluster.launching import CheckpointOrder, LaunchOrder, PreflightOrder
from aliquot_schema.cluster.workspaces import WorkspaceUse
from aliquot_schema.identity.secrets import SecretGrant
from aliquot_schema.ids import AgentId, KernelId, LeaseId, NodeId, SessionId
from aliquot_schema.resources.devices import ResourceSpec
from aliquot_schema.resources.leases import Kernel
from aliquot_schema.sessions import Session, app_port
from aliquot_schema.states import KernelState, SessionState

LOOPBACK = "127.0.0.1"
APP_PREFIX = "ALIQUOT_APP_"
APP_TOKEN = f"{APP_PREFIX}TOKEN"
"""Variable with the token of a kernel's apps. No app has this name, see `AppTokens.with_tokens`."""

Orders = Mapping[AgentId, Sequence[LaunchOrder]]


class LaunchAttempt(Struct, frozen=True, kw_only=True, dict=True):
    """One attempt of a session, with everything its launch orders need."""

    session: Session
    kernels: Sequence[Kernel]
    """All ranks, by rank."""
    specs: Mapping[KernelId, ResourceSpec]
    address: str | None
    """Address of rank 0's node for other nodes."""
    user: str | None
    """The Unix account of the owner; None = the agent's job user."""
    grace_ms: int
    """The policy's grace, for sessions without their own."""

    def order(self, kernel: Kernel, *, epoch: int) -> LaunchOrder:
        """The order for one rank; `Dispatch` adds the configured grace.

        The same kernel always gets the same order, except for the epoch, for a Unix account that an administrator has
        changed, and for the release after a preflight. An agent that already has an order keeps the one it has.
        """
        spec = self.session.spec
        return LaunchOrder(
            kernel_id=kernel.id,
            epoch=epoch,
            argv=spec.argv,
            environment={**spec.environment, **self._gang_environment(kernel), **self._rendezvous, **self._array}
            | self._apps(kernel),
            working_directory=spec.working_directory,
            spec=self.specs[kernel.id],
            user=self.user,
            time_limit_ms=spec.time_limit_ms,
            limits=spec.limits,
            sandbox=spec.sandbox,
            checkpoint=self._checkpoint,
            secrets=tuple(SecretGrant(owner=self.session.owner, use=use) for use in spec.secrets),
            workspace=None if spec.workspace is None else WorkspaceUse(owner=self.session.owner, id=spec.workspace),
            activates=spec.activates,
            image=spec.image,
            preflight=self._preflight,
        )

    def _gang_environment(self, kernel: Kernel) -> dict[str, str]:
        """RANK and the related variables of distributed programs; each agent counts as a node, by its lowest rank."""
        agents = list(dict.fromkeys(member.agent_id for member in self.kernels))
        local = [member.rank for member in self.kernels if member.agent_id == kernel.agent_id]
        return {
            "RANK": str(kernel.rank),
            "WORLD_SIZE": str(len(self.kernels)),
            "LOCAL_RANK": str(local.index(kernel.rank)),
            "LOCAL_WORLD_SIZE": str(len(local)),
            "NODE_RANK": str(agents.index(kernel.agent_id)),
            "ALIQUOT_NODES": str(len(agents)),
        }

    def _apps(self, kernel: Kernel) -> dict[str, str]:
        """The ports of its apps; empty for other ranks than 0."""
        apps = self.session.spec.apps if kernel.rank == 0 else {}
        return {f"{APP_PREFIX}{name.upper()}": str(app_port(kernel.id, name, port)) for name, port in apps.items()}

    @cached_property
    def _rendezvous(self) -> dict[str, str]:
        """MASTER_ADDR and MASTER_PORT; empty when rank 0 has no port."""
        leader = self.kernels[0]
        if leader.rank != 0 or leader.rendezvous_port is None or self.address is None:
            return {}
        together = all(member.agent_id == leader.agent_id for member in self.kernels)
        return {"MASTER_ADDR": LOOPBACK if together else self.address, "MASTER_PORT": str(leader.rendezvous_port)}

    @cached_property
    def _preflight(self) -> PreflightOrder | None:
        """The check. A single rank, and a rank of a gang that has passed, does not wait after it."""
        check = self.session.spec.preflight
        if check is None:
            return None
        is_released = len(self.kernels) == 1 or all(kernel.has_passed for kernel in self.kernels)
        return PreflightOrder(argv=check.argv, limit_ms=check.limit_ms, is_released=is_released)

    @cached_property
    def _checkpoint(self) -> CheckpointOrder:
        spec, work = self.session.spec, self.session.work
        grace_ms = self.grace_ms if spec.grace_ms is None else spec.grace_ms
        before_ms = 0 if spec.time_limit_ms is None else min(grace_ms, spec.time_limit_ms // 2)
        return CheckpointOrder(
            signal=spec.checkpoint_signal,
            every_ms=spec.checkpoint_every_ms,
            before_limit_ms=before_ms,
            kept_ms=0 if work is None else work.kept_ms,
            agent_id=None if work is None else work.agent_id,
        )

    @cached_property
    def _array(self) -> dict[str, str]:
        """The task's place in its job array; empty for other sessions."""
        if self.session.array_id is None or self.session.array_index is None:
            return {}
        return {"ALIQUOT_ARRAY_ID": self.session.array_id, "ALIQUOT_ARRAY_INDEX": str(self.session.array_index)}


class AppTokens:
    """Tokens by which the server shows an app that a request comes from it: every process of a node can reach the ports
    of all its sessions. A token is derived from the key, and stored nowhere.

    Args:
        key: the secret that all servers share.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key

    def of(self, kernel: KernelId) -> str:
        """The token of a kernel's apps: 64 hexadecimal digits."""
        return hmac.digest(self._key, f"aliquot app {kernel}".encode(), "sha256").hex()

    def with_tokens(self, orders: Iterable[LaunchOrder]) -> list[LaunchOrder]:
        """The orders, with the variable of the token for kernels with apps."""
        return [
            replace(order, environment={**order.environment, APP_TOKEN: self.of(order.kernel_id)})
            if any(name.startswith(APP_PREFIX) for name in order.environment)
            else order
            for order in orders
        ]


class RendezvousPorts:
    """Ports for MASTER_PORT, not used by another living kernel of this cluster on rank 0's node.

    One instance serves one unit of work. A port becomes durable with its kernel.
    """

    def __init__(self, draft: UnitOfWork) -> None:
        self._draft = draft
        self._taken: dict[NodeId, set[int]] = {}
        """Includes the ports given in this unit of work, and those of kernels that it ends."""

    def allocate(self, leader: Kernel) -> int | None:
        """A port for rank 0 of an attempt; None when the node has none left.

        The search starts at a different port for each attempt, so that a port taken by a foreign process is not
        tried again.
        """
        agent = self._draft.agent(leader.agent_id)
        assert agent is not None, f"{leader.agent_id} is not known"
        first, last = agent.capabilities.port_first, agent.capabilities.port_last
        count = last - first + 1
        taken = self._taken_on(agent.node_id)
        start = crc32(leader.id.encode()) % count
        free = (first + (start + step) % count for step in range(count))
        port = next((port for port in free if port not in taken), None)
        if port is not None:
            taken.add(port)
        return port

    def _taken_on(self, node_id: NodeId) -> set[int]:
        if node_id not in self._taken:
            self._taken[node_id] = self._draft.rendezvous_ports_on(node_id)
        return self._taken[node_id]


def attempt_of(draft: UnitOfWork, session: Session) -> LaunchAttempt:
    """The present attempt of a session."""
    kernels = draft.kernels_in(session)
    leader = draft.agent(kernels[0].agent_id)
    assert leader is not None, f"{kernels[0].agent_id} is not known"
    return LaunchAttempt(
        session=session,
        kernels=kernels,
        specs={kernel.id: _spec_of(draft, kernel) for kernel in kernels},
        address=leader.capabilities.address or leader.hostname,
        user=draft.unix_name(session.owner),
        grace_ms=draft.policy().preemption.grace_ms,
    )


def start(draft: UnitOfWork, sessions: Iterable[SessionId], *, epoch: int) -> Orders:
    """Move granted sessions to `allocating`; returns their launch orders, to be sent after the commit.

    Sessions that are not `scheduled` are skipped: an external allocation runs nothing.
    """
    orders: dict[AgentId, list[LaunchOrder]] = defaultdict(list)
    ports = RendezvousPorts(draft)
    for session_id in sessions:
        session = draft.session(session_id)
        if session is None or session.state is not SessionState.SCHEDULED:
            continue
        for kernel in draft.kernels_in(session):
            started = transitions.move_kernel(kernel, KernelState.STARTING)
            if kernel.rank == 0:
                started = replace(started, rendezvous_port=ports.allocate(kernel))
            draft.put(started, "starting")
        attempt = attempt_of(draft, session)
        for kernel in attempt.kernels:
            orders[kernel.agent_id].append(attempt.order(kernel, epoch=epoch))
        draft.put(transitions.send(session), "allocating")
    return orders


def _spec_of(draft: UnitOfWork, kernel: Kernel) -> ResourceSpec:
    lease = draft.lease(LeaseId(kernel.id))
    assert lease is not None, f"{kernel.id} has no lease"
    return lease.spec
