"""Partition picture: the three ways to divide a node among agents, as the partitioner divides five GPUs."""

from collections.abc import Mapping, Sequence
from typing import Final

from aliquot.core.allocation.node_partition import DeviceClaim, Parts, auto_split, claimed
from aliquot_docs.drawing.svg import FAINT, PALETTE, box, label, picture
from aliquot_schema.cluster.agents import AllocationMode
from aliquot_schema.ids import AgentId, DeviceId, SlotName
from aliquot_schema.resources.devices import Device

GPUS: Final = tuple(
    Device(
        id=DeviceId(f"GPU-{number}"),
        kind="cuda",
        name=f"cuda{number}",
        model="H100",
        budget=1000,
        costs={SlotName("cuda.device"): 1000},
        quanta={},
        memory_bytes=0,
    )
    for number in range(5)
)
AGENTS: Final = tuple(AgentId(f"agent-{number}") for number in (1, 2))
CLAIMS: Final = (
    DeviceClaim(agent_id=AGENTS[0], devices={"cuda": ["cuda0"]}),
    DeviceClaim(agent_id=AGENTS[1], devices={"cuda": ["cuda2", "cuda3", "cuda4"]}),
)
ROW, CELL = 96, 84


def divided() -> Mapping[AllocationMode, Parts]:
    """The devices of each agent in every mode."""
    return {
        AllocationMode.SHARED: dict.fromkeys(AGENTS, GPUS),
        AllocationMode.AUTO_SPLIT: auto_split(GPUS, agents=AGENTS),
        AllocationMode.MANUAL: claimed(GPUS, claims=CLAIMS),
    }


def partitions_picture() -> str:
    """One row per mode, one cell per GPU, one bar per agent that has the GPU."""
    rows = divided()
    parts = [
        part for number, (mode, found) in enumerate(rows.items()) for part in _row(mode, found, y=8 + number * ROW)
    ]
    height = len(rows) * ROW + 30
    for index, agent in enumerate(AGENTS):
        parts.append(box(130 + index * 130, height - 24, 14, 14, fill=PALETTE[index], stroke=PALETTE[index]))
        parts.append(label(agent, 150 + index * 130, height - 12, size=13, anchor="start"))
    parts.append(label("empty cell: no agent", 390, height - 12, size=13, color=FAINT, anchor="start"))
    return picture("".join(parts), width=130 + len(GPUS) * CELL + 10, height=height, title="Five GPUs, two agents")


def _row(mode: AllocationMode, found: Parts, *, y: float) -> list[str]:
    parts = [label(mode.value, 8, y + 40, size=15, anchor="start")]
    for number, gpu in enumerate(GPUS):
        x = 130 + number * CELL
        owners = [agent for agent in AGENTS if gpu in found[agent]]
        parts.append(box(x, y, CELL - 10, 72, dash="" if owners else "5 4"))
        parts.append(label(gpu.name, x + (CELL - 10) / 2, y + 18, size=12))
        parts += _bars(owners, x=x + 8, y=y + 28)
    return parts


def _bars(owners: Sequence[AgentId], *, x: float, y: float) -> list[str]:
    colors = [PALETTE[AGENTS.index(owner)] for owner in owners]
    return [box(x, y + index * 19, CELL - 26, 14, fill=color, stroke=color) for index, color in enumerate(colors)]
