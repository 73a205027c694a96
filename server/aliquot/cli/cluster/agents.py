"""`aliquot agents`: shows the agents of a server, and drains and labels them."""

import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer
from typer import Argument, Option

from aliquot.cli.cluster.booking_texts import bookings_on, described
from aliquot.cli.connection.output import amount_text, print_json, printable
from aliquot.cli.connection.server import AsJson, AtServer, InCluster, TokenFile, connected, nodes
from aliquot.cli.connection.tables import BriefCell, Column, Table
from aliquot.cli.session.completion import agent_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aliquot.client import BlockingClient
    from aliquot.client.generated.agents import Agent
    from aliquot.client.generated.bookings import Booking


def state_text(agent: "Agent", *, with_note: bool = True, shortage: str | None = None) -> str:
    """`alive`, `alive, draining (new fans)`, ...

    Args:
        shortage: why nothing is launched on it although it is schedulable.
    """
    states, notes = [str(agent.state)], []
    if agent.draining or not agent.schedulable:
        states.append("not schedulable" if not agent.draining else "drained" if agent.drained else "draining")
        notes.append(agent.note)
    if shortage is not None:
        states.append("launches paused")
        notes.append(shortage)
    note = "; ".join(printable(one) for one in notes if one)
    return ", ".join(states) + (f" ({note})" if note and with_note else "")


IMAGES_SHOWN: Final = 3
"""Images that the list of agents names; `--json` has all."""

agents: Final = typer.Typer(no_args_is_help=True, help="Show agents; for operators, drain, label and release them.")

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
        found = all_agents(client)
        shortages = {} if as_json else disk_shortages(client)
    if as_json:
        print_json(found)
        return
    if not found and sys.stdout.isatty():
        print("no agent is registered; `aliquot agent --server URL --id NAME` on a node with GPUs starts one")
        return
    agents_table(found, shortages=shortages).show()


def all_agents(client: "BlockingClient") -> "list[Agent]":
    """All agents of a server."""
    return list(nodes(lambda count, after: client.agents(first=count, after=after)))


def disk_shortages(client: "BlockingClient") -> "Mapping[str, str]":
    """Alerts of nearly full disks, which pause launches, by agent; `server` is the server's own, which pauses all."""
    from aliquot.client.generated.enums import AlertRule

    alerts = nodes(lambda count, after: client.alerts(first=count, after=after))
    return {one.subject: one.message for one in alerts if one.rule is AlertRule.DISK_LOW}


def agents_table(agents: "Sequence[Agent]", *, shortages: "Mapping[str, str] | None" = None) -> Table:
    """Agents with what is held of each; below each, why nothing starts there, and its labels.

    Args:
        shortages: as `disk_shortages`.
    """
    shortages = shortages or {}
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
        shortage = shortages.get("server", shortages.get(one.id))
        state = BriefCell(state_text(one, with_note=False, shortage=shortage), state_text(one, shortage=shortage))
        held = _held(one)
        gpus = ", ".join(text for slot, text in held.items() if slot not in ("cpu", "mem"))
        eviction = None if one.eviction is None else f"about to be taken away: {one.eviction}"
        note = "; ".join(filter(None, (eviction, one.note, shortage, labels, images_text(one))))
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
        booked = [] if as_json else bookings_on(client, done.agent)
    _print(done.agent, as_json=as_json)
    for booking in booked:
        print(f"booked there by {printable(booking.owner)}: {described(booking)}")


def closed_for(booking: "Booking", agents: "Sequence[Agent]") -> str | None:
    """Which GPUs of an open booking start no sessions now, by node: `gpu01 drained`; None if all do."""
    from aliquot.client.generated.enums import BookingState

    if booking.state is not BookingState.BOOKED:
        return None
    states: dict[str, str] = {}
    for gpu in booking.devices:
        own = [one for one in agents if one.node_id == gpu.node_id and any(d.id == gpu.device_id for d in one.devices)]
        if not any(one.state == "alive" and one.schedulable and not one.draining for one in own):
            states[gpu.hostname] = state_text(own[0], with_note=False).removeprefix("alive, ") if own else "gone"
    return ", ".join(f"{printable(host)} {state}" for host, state in states.items()) or None


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


@agents.command("release-lost")
def release_lost(
    agent_id: AgentId,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Confirm that the processes of a lost agent are gone, which frees its devices. Sessions with retries run again.

    Do this only when its node is off or its processes are stopped. Otherwise its devices may be given to two jobs.
    """
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        done = client.release_lost_agent(agent_id)
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
