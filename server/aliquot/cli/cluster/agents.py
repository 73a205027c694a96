"""`aliquot agents`: shows the agents of a server, and drains and labels them."""

import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer
from typer import Argument, Option

from aliquot.cli.connection.output import amount_text, print_json, printable
from aliquot.cli.connection.server import AsJson, AtServer, InCluster, TokenFile, connected, nodes
from aliquot.cli.connection.tables import BriefCell, Column, Table
from aliquot.cli.session.completion import agent_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aliquot.client.generated.agents import Agent


def state_text(agent: "Agent", *, with_note: bool = True) -> str:
    """`alive`, `alive, draining (new fans)`, ..."""
    note = f" ({printable(agent.note)})" if agent.note and with_note else ""
    if agent.draining:
        return f"{agent.state}, {'drained' if agent.drained else 'draining'}{note}"
    return str(agent.state) if agent.schedulable else f"{agent.state}, not schedulable{note}"


IMAGES_SHOWN: Final = 3
"""Images that the list of agents names; `--json` has all."""

agents: Final = typer.Typer(no_args_is_help=True, help="Show agents; for operators, drain and label them.")

AgentId = Annotated[str, Argument(metavar="AGENT", help="The agent's name.", autocompletion=agent_names)]
Note = Annotated[str | None, Option(metavar="TEXT", help="The reason, visible to all users.")]
Evict = Annotated[bool, Option("--evict", help="Preempt the sessions on it; they are queued again.")]
Preview = Annotated[
    bool, Option("--preview", help="Change nothing; show which sessions would be preempted or start later.")
]
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
    if not found and sys.stdout.isatty():
        print("no agent is registered; `aliquot agent --server URL --id NAME` on a node with GPUs starts one")
        return
    agents_table(found).show()


def agents_table(agents: "Sequence[Agent]") -> Table:
    """Agents with what is held of each; below each, why it is not schedulable, and its labels."""
    rows = Table(
        Column("agent", width_min=16),
        Column("state"),
        Column("pool", importance=20, width_min=8),
        Column("kernels", importance=30, is_number=True),
        Column("held", in_terminal=False),
        Column("GPUs", brief="GPUs held", importance=90, is_number=True, in_pipe=False),
        Column("CPUs", brief="CPUs held", importance=60, is_number=True, in_pipe=False),
        Column("memory", brief="memory held", importance=50, is_number=True, in_pipe=False),
        Column("labels", in_terminal=False),
    )
    for one in agents:
        labels = " ".join(f"{label.name}={label.value}" for label in one.labels)
        state = BriefCell(state_text(one, with_note=False), state_text(one))
        held = _held(one)
        gpus = ", ".join(text for slot, text in held.items() if slot not in ("cpu", "mem"))
        eviction = None if one.eviction is None else f"about to be taken away: {one.eviction}"
        note = "; ".join(filter(None, (eviction, one.note, labels, images_text(one))))
        rows.add(
            *(one.id, state, one.pool, len(one.kernels), ", ".join(held.values())),
            *(
                gpus.replace(" GPUs", "").replace(" GPU", ""),
                held.get("cpu", "").removesuffix("s").removesuffix(" CPU"),
            ),
            *(held.get("mem"), labels),
            note=note,
        )
    return rows


def images_text(agent: "Agent") -> str | None:
    """The first images that an agent holds, and how many there are; None without one."""
    images = agent.capabilities.images
    if not images:
        return None
    more = len(images) - IMAGES_SHOWN
    return f"images: {', '.join(images[:IMAGES_SHOWN])}{f' and {more} more' if more > 0 else ''}"


@agents.command("drain")
def drain(
    agent_id: AgentId,
    note: Note = None,
    evict: Evict = False,
    preview: Preview = False,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Start nothing new on an agent; running sessions end by themselves."""
    from aliquot.client.generated.policy_inputs import DrainAgentInput

    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        if preview:
            from aliquot.cli.cluster.effects import show_what_if
            from aliquot.client.generated.explanations import WhatIfInput

            show_what_if(client, WhatIfInput(drain=agent_id, evict=evict), as_json=as_json)
            return
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


def _held(agent: "Agent") -> dict[str, str]:
    """By slot `4 of 64 CPUs`, `2.5 of 8 GPUs`, `2 GiB of 64 GiB`; whole devices and shares are of the same devices."""
    occupied = {one.slot: one.amount for one in agent.occupied}
    slots = {one.slot for one in agent.capacity}
    parts = {}
    for one in agent.capacity:
        kind, _, unit = one.slot.partition(".")
        held = occupied.get(one.slot, "0")
        if unit == "device":
            held = f"{float(held) + float(occupied.get(f'{kind}.shares', '0')):g}"
        if unit != "shares" or f"{kind}.device" not in slots:
            held = amount_text(one.slot, held) if one.slot == "mem" else held
            parts[one.slot] = f"{held} of {amount_text(one.slot, one.amount)}"
    return parts
