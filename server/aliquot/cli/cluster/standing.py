"""How an agent stands, in words."""

from typing import TYPE_CHECKING

from aliquot.cli.connection.printing import printable

if TYPE_CHECKING:
    from aliquot.client.generated.agents import Agent


def standing(agent: "Agent") -> str:
    """`alive`, `alive, draining (new fans)`, ..."""
    note = f" ({printable(agent.note)})" if agent.note else ""
    if agent.draining:
        return f"{agent.state}, {'drained' if agent.drained else 'draining'}{note}"
    return str(agent.state) if agent.schedulable else f"{agent.state}, gets nothing new{note}"
