"""Capture: what is taken of the state at the moment of a snapshot. Cheap, as it holds up everything else."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from aliquot.core.plan import Plan
from aliquot.core.policy import Policy
from aliquot.core.snapshot import Snapshot
from aliquot.service.external import Blocked
from aliquot.service.state import State
from aliquot_schema.agents import Agent, KnownSlot
from aliquot_schema.ids import LeaseId, SessionId
from aliquot_schema.leases import Kernel, Lease
from aliquot_schema.policies import PolicyDocument
from aliquot_schema.sessions import Session
from aliquot_schema.states import KernelState


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Records as they stood, for a checkpoint; what of `Checkpoint` is in the snapshot is not here."""

    agents: tuple[Agent, ...]
    slots: tuple[KnownSlot, ...]
    policy: PolicyDocument
    sessions: tuple[Session, ...]
    kernels: tuple[Kernel, ...]
    leases: tuple[Lease, ...]
    rates: Mapping[LeaseId, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One pass, before it was compared with the one before."""

    number: int
    now_us: int
    seed: int
    snapshot: Snapshot
    rules: Policy
    policy: PolicyDocument
    estimates: Mapping[SessionId, int]
    """New or other ones since the pass before; of all sessions when there is a `standing`."""
    standing: Standing | None
    external: Blocked
    plan: Plan


def standing_of(state: State) -> Standing:
    """What stands now."""
    return Standing(
        agents=tuple(state.agents.values()),
        slots=tuple(state.slots.values()),
        policy=state.policy,
        sessions=tuple(_sessions(state)),
        kernels=tuple(kernel for kernel in state.kernels.values() if kernel.state is not KernelState.EXITED),
        leases=tuple(lease for on_node in state.open_leases.values() for lease in on_node.values()),
        rates=state.books.rates(),
    )


def estimates_of(state: State) -> dict[SessionId, int]:
    """What is predicted of every session that has not ended."""
    found = {name: state.forecast_of(name) for name, session in state.sessions.items() if not session.is_ended}
    return {name: forecast.estimate_ms for name, forecast in found.items() if forecast is not None}


def _sessions(state: State) -> Iterator[Session]:
    waited_for = frozenset(state.waited_for())
    for session in state.sessions.values():
        if not session.is_ended or session.id in waited_for or state.holds_devices(session.id):
            yield session
