"""GPU map in the terminal: one line per GPU, with a bar of the holders' shares."""

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from rich.console import Group
from rich.table import Table
from rich.text import Text

from aliquot.cli.cluster.agents import state_text
from aliquot.cli.connection.output import cells, printable

if TYPE_CHECKING:
    from aliquot.client.generated.agents import Agent, Device, Holder

BAR_CELLS: Final = 20
COLOURS: Final = ("cyan", "magenta", "yellow", "green", "blue", "bright_red", "bright_cyan", "bright_magenta")
"""A user always has the same colour. With more users than colours some share one, so names are beside the bar."""


def gpus_of(agent: "Agent") -> dict[str, Any]:
    """An agent's accelerators, as for `--json`."""
    return {"agent_id": agent.id, "node_id": agent.node_id, "state": agent.state, "gpus": _accelerators(agent)}


def gpu_map(agents: "Sequence[Agent]") -> Group:
    """The whole map, agent by agent."""
    return Group(*(part for agent in agents for part in _agent(agent)))


def _agent(agent: "Agent") -> "Iterator[Text | Table]":
    gpus = _accelerators(agent)
    held = f"{sum(float(gpu.used) for gpu in gpus):.2f} of {len(gpus)} GPUs held" if gpus else "no GPU"
    yield Text(f"{printable(agent.id)}  {state_text(agent)}  {held}", "bold")
    rows = Table(box=None, show_header=False, pad_edge=False)
    for gpu in gpus:
        rows.add_row(*_row(gpu))
    yield rows


def _accelerators(agent: "Agent") -> "list[Device]":
    shown = json.loads(agent.gpu_alloc_map)
    return [device for device in agent.devices if device.id in shown]


def _row(gpu: "Device") -> "Iterable[Text]":
    busy = "" if gpu.utilization_pct is None else f"{gpu.utilization_pct:.0f} %"
    return cells(
        f"  {gpu.name}", gpu.model, gpu.used, _bar(gpu), _holders(gpu.holders), busy, _memory(gpu), _trouble(gpu)
    )


def _bar(gpu: "Device") -> Text:
    """A bar with each holder's share in the colour of its user; free shares are dotted."""
    bar = Text()
    capacity = float(gpu.capacity) or 1.0
    for holder in gpu.holders:
        # At least one cell, so that every holder is visible.
        width = max(1, round(float(holder.share) / capacity * BAR_CELLS))
        bar.append("\N{FULL BLOCK}" * min(width, BAR_CELLS - len(bar)), style=_colour(holder.user))
    bar.append("\N{MIDDLE DOT}" * (BAR_CELLS - len(bar)), style="dim")
    return bar


def _holders(holders: "Iterable[Holder]") -> Text:
    parts = [
        Text(f"{printable(one.user)} {one.share}{'' if one.kind == 'session' else f' ({one.kind})'}", _colour(one.user))
        for one in holders
    ]
    return Text(", ").join(parts)


def _memory(gpu: "Device") -> str:
    used = "" if gpu.memory_used_bytes is None else f"{gpu.memory_used_bytes / 1e9:.1f} of "
    return f"{used}{gpu.memory_bytes / 1e9:.0f} GB"


def _trouble(gpu: "Device") -> Text:
    words = [] if gpu.health == "healthy" else [str(gpu.health)]
    if gpu.foreign_usage or gpu.foreign_users:
        users = ", ".join(map(printable, gpu.foreign_users))
        words.append(f"used by foreign processes of {users}" if users else "used by foreign processes")
    return Text(", ".join(words), style="yellow" if words == ["leaving"] else "red")


def _colour(user: str) -> str:
    return COLOURS[zlib.crc32(user.encode()) % len(COLOURS)]
