"""The agents of a scenario."""

from typing import Final

from aliquot.core.allocation.layout import DeviceLayout
from aliquot.core.scenarios.table import Entry
from aliquot.core.snapshot import AgentRow
from aliquot_schema.devices import Device
from aliquot_schema.ids import AgentId, DeviceId, NodeId, PoolId, SlotName
from aliquot_schema.sessions import DEFAULT_POOL
from aliquot_schema.sizes import parse_size
from aliquot_schema.slots import MILLI

WHOLE: Final = SlotName("cuda.device")
SHARES: Final = SlotName("cuda.shares")
CPU: Final = SlotName("cpu")
MEM: Final = SlotName("mem")
GPUS_MAX: Final = 1024
CORES_MAX: Final = 4096


def agents(entry: Entry) -> tuple[AgentRow, ...]:
    """The list `agents`; each name once."""
    found: dict[AgentId, AgentRow] = {}
    for item in entry.items():
        agent = _agent(item)
        if agent.id in found:
            item.refuse(f"there are two agents {agent.id}")
        found[agent.id] = agent
    return tuple(found.values())


def pairs(entry: Entry) -> dict[str, str]:
    """Labels."""
    return {key: value.text() for key, value in entry.pairs()}


def size(entry: Entry) -> int:
    """Bytes, like `80g`."""
    return entry.checked(lambda: parse_size(entry.text()))


def _agent(entry: Entry) -> AgentRow:
    table = entry.table()
    name = table.need("name", Entry.text)
    model = table.get("model", Entry.text, "H100")
    memory_bytes = table.get("memory", size, 80 * 10**9)
    gpus = table.get("gpus", lambda found: _count(found, GPUS_MAX), 0)
    cores = table.get("cpu", lambda found: _count(found, CORES_MAX), 0)
    mem = table.get("mem", size, 0)
    devices = [_gpu(number, model=model, memory_bytes=memory_bytes) for number in range(gpus)]
    devices += [_host(CPU, number, budget=1) for number in range(cores)]
    devices += [_host(MEM, 0, budget=mem)] if mem else []
    agent = AgentRow(
        id=AgentId(name),
        node_id=NodeId(table.get("node", Entry.text, name)),
        layout=DeviceLayout.of(devices),
        is_open=table.get("open", Entry.flag, True),
        pool=PoolId(table.get("pool", Entry.text, str(DEFAULT_POOL))),
        labels=table.get("labels", pairs, {}),
    )
    table.finish()
    return agent


def _count(entry: Entry, most: int) -> int:
    count = entry.whole()
    if count > most:
        entry.refuse(f"{count} is more than {most}")
    return count


def _gpu(number: int, *, model: str, memory_bytes: int) -> Device:
    return Device(
        id=DeviceId(f"cuda{number}"),
        name=f"cuda{number}",
        kind="cuda",
        model=model,
        budget=MILLI,
        costs={WHOLE: MILLI, SHARES: 1},
        quanta={SHARES: 10},
        memory_bytes=memory_bytes,
    )


def _host(slot: SlotName, number: int, *, budget: int) -> Device:
    return Device(
        id=DeviceId(f"{slot}{number}"),
        name=f"{slot}{number}",
        kind=slot,
        model="",
        budget=budget,
        costs={slot: 1},
        quanta={},
        memory_bytes=0,
    )
