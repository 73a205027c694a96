"""`aliquot agents`: the agents that the server sees; `aliquot agent` is one itself."""

from typing import TYPE_CHECKING, Annotated, Final

import typer
from typer import Argument, Option

from aliquot.cli.cluster.standing import standing
from aliquot.cli.connection.asking import connected
from aliquot.cli.connection.options import AsJson, AtServer, InCluster, TokenFile
from aliquot.cli.connection.pages import nodes
from aliquot.cli.connection.printing import cells, console, print_json, table

if TYPE_CHECKING:
    from aliquot.client.generated.agents import Agent

agents: Final = typer.Typer(no_args_is_help=True, help="Look at agents; for operators, drain and label them.")

AgentId = Annotated[str, Argument(metavar="AGENT", help="The agent's name.")]
Note = Annotated[str | None, Option(help="Why, for everybody to read.")]
Evict = Annotated[bool, Option("--evict", help="Ask what runs there to make room, and wait again.")]
Labels = Annotated[list[str] | None, Argument(metavar="NAME=VALUE...", help="All of its labels; none removes them.")]


@agents.command("list")
def list_agents(
    cluster: InCluster = None, server: AtServer = None, token_file: TokenFile = None, as_json: AsJson = False
) -> None:
    """List the agents, with what they have and what of it is held."""
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        found = list(nodes(lambda count, after: client.agents(first=count, after=after)))
    if as_json:
        print_json(found)
        return
    rows = table("agent", "state", "pool", "kernels", "held", "labels")
    for one in found:
        labels = " ".join(f"{label.name}={label.value}" for label in one.labels)
        rows.add_row(*cells(one.id, standing(one), one.pool, len(one.kernels), _held(one), labels))
    console().print(rows)


@agents.command("drain")
def drain(
    agent_id: AgentId,
    note: Note = None,
    evict: Evict = False,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Put nothing new on an agent; what runs there ends by itself."""
    from aliquot.client.generated.administration_inputs import DrainAgentInput

    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        done = client.drain_agent(DrainAgentInput(id=agent_id, note=note, evict=evict))
    _tell(done.agent, as_json=as_json)


@agents.command("resume")
def resume(
    agent_id: AgentId,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Give a drained agent work again."""
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        done = client.resume_agent(agent_id)
    _tell(done.agent, as_json=as_json)


@agents.command("label")
def label(
    agent_id: AgentId,
    labels: Labels = None,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Say what an agent is like, for sessions to ask for; in place of what was said."""
    from aliquot.cli.session.notation import pairs_of
    from aliquot.client.generated.administration_inputs import LabelAgentInput

    named = pairs_of(labels, option="label") or []
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        done = client.label_agent(LabelAgentInput(id=agent_id, labels=named))
    _tell(done.agent, as_json=as_json)


def _tell(agent: "Agent", *, as_json: bool) -> None:
    if as_json:
        print_json(agent)
    else:
        labels = " ".join(f"{label.name}={label.value}" for label in agent.labels)
        print(f"{agent.id}  {standing(agent)}  {labels}".rstrip())


def _held(agent: "Agent") -> str:
    held = {one.slot: one.amount for one in agent.occupied}
    return ", ".join(f"{held.get(one.slot, '0')} of {one.amount} {one.slot}" for one in agent.capacity)
