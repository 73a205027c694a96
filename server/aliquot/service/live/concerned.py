"""Whom an event concerns among devices: the nodes whose devices look another way after it."""

from collections.abc import Iterable

from aliquot.service.state import State
from aliquot_schema.agents import Agent
from aliquot_schema.events import Record
from aliquot_schema.ids import NodeId
from aliquot_schema.leases import Lease
from aliquot_schema.sessions import Session


def nodes_of(record: Record, state: State) -> Iterable[NodeId]:
    """Devices show who holds them, through which agent, and until when: that is in leases, agents and sessions."""
    match record:
        case Agent():
            return (record.node_id,)
        case Lease():
            return (state.node_of(record.agent_id),)
        case Session():
            kernels = state.kernels_of.get(record.id, {}).values()
            return {state.node_of(kernel.agent_id): None for kernel in kernels if kernel.attempt == record.attempt}
        case _:
            return ()
