"""`aliquot agents`: shows the agents of a server, and drains and labels them."""

from typing import TYPE_CHECKING, Annotated, Final

import typer
from typer import Argument, Option

from aliquot.cli.connection.output import amount_text, cells, console, print_json, printable, table
from aliquot.cli.connection.server import AsJson, AtServer, InCluster, TokenFile, connected, nodes

if TYPE_CHECKING:
    from aliquot.client.generated.agents import Agent


def state_text(agent: "Agent") -> str:
    """`alive`, `alive, draining (new fans)`, ..."""
    note = f" ({printable(agent.note)})" if agent.note else ""
    if agent.draining:
        return f"{agent.state}, {'drained' if agent.drained else 'draining'}{note}"
    return str(agent.state) if agent.schedulable else f"{agent.state}, not schedulable{note}"


agents: Final = typer.Typer(no_args_is_help=True, help="Show agents; for operators, drain and label them.")

AgentId = Annotated[str, Argument(metavar="AGENT", help="The agent's name.")]
Note = Annotated[str | None, Option(metavar="TEXT", help="The reason, visible to all users.")]
Evict = Annotated[bool, Option("--evict", help="Preempt the sessions on it; they are queued again.")]
Labels = Annotated[
    list[str] | None, Argument(metavar="NAME=VALUE...", help="All of its labels; without any, they are removed.")
]


@agents.command("list")
def list_agents(
    cluster: InCluster = None, server: AtServer = None, token_file: TokenFile = None, as_json: AsJson = False
) -> None:
    """List the agents with their capacity and what is held of it."""
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        found = list(nodes(lambda count, after: client.agents(first=count, after=after)))
    if as_json:
        print_json(found)
        return
    rows = table("agent", "state", "pool", "kernels", "held", "labels")
    for one in found:
        labels = " ".join(f"{label.name}={label.value}" for label in one.labels)
        rows.add_row(*cells(one.id, state_text(one), one.pool, len(one.kernels), _held(one), labels))
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
    """Start nothing new on an agent; running sessions end by themselves."""
    from aliquot.client.generated.policy_inputs import DrainAgentInput

    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        done = client.drain_agent(DrainAgentInput(id=agent_id, note=note, evict=evict))
    _print(done.agent, as_json=as_json)


@agents.command("resume")
def resume(
    agent_id: AgentId,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Make a drained agent schedulable again."""
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        done = client.resume_agent(agent_id)
    _print(done.agent, as_json=as_json)


@agents.command("label")
def label(
    agent_id: AgentId,
    labels: Labels = None,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Replace the labels of an agent, by which sessions select agents."""
    from aliquot.cli.session.options import pairs_of
    from aliquot.client.generated.policy_inputs import LabelAgentInput

    named = pairs_of(labels, option="label") or []
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        done = client.label_agent(LabelAgentInput(id=agent_id, labels=named))
    _print(done.agent, as_json=as_json)


def _print(agent: "Agent", *, as_json: bool) -> None:
    if as_json:
        print_json(agent)
    else:
        labels = " ".join(f"{label.name}={label.value}" for label in agent.labels)
        print(f"{agent.id}  {state_text(agent)}  {labels}".rstrip())


def _held(agent: "Agent") -> str:
    """`4 of 64 CPUs, 2.5 of 8 GPUs, 2 GiB of 64 GiB`; whole devices and shares are amounts of the same devices."""
    occupied = {one.slot: one.amount for one in agent.occupied}
    slots = {one.slot for one in agent.capacity}
    parts = []
    for one in agent.capacity:
        kind, _, unit = one.slot.partition(".")
        held = occupied.get(one.slot, "0")
        if unit == "device":
            held = f"{float(held) + float(occupied.get(f'{kind}.shares', '0')):g}"
        if unit != "shares" or f"{kind}.device" not in slots:
            held = amount_text(one.slot, held) if one.slot == "mem" else held
            parts.append(f"{held} of {amount_text(one.slot, one.amount)}")
    return ", ".join(parts)
