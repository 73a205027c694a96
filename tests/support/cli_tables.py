"""Command-line tables of a busy cluster; their output is recorded in `tests/data/cli_tables`.

python tests/support/cli_tables.py      rewrites the record; review and commit the difference
"""

import json
import types
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

from msgspec import Struct

from aliquot.cli.cluster.agents import agents_table
from aliquot.cli.cluster.gpu_map import GpuMap
from aliquot.cli.cluster.queue import projects_table, queue_table
from aliquot.cli.connection.tables import Table
from aliquot.cli.session.list import sessions_table
from aliquot.client.generated.agents import Agent, Capabilities, Device, Holder
from aliquot.client.generated.cluster import Project
from aliquot.client.generated.enums import AgentState, DeviceHealth, LeaseKind, QuotaScope, Reason, SessionState
from aliquot.client.generated.policy import Quota
from aliquot.client.generated.queries_types import QueueEntry
from aliquot.client.generated.scalars import NameValue, SlotAmount
from aliquot.client.generated.sessions import Failure, Session, Verdict

RECORD: Final = Path(__file__).parents[1] / "data" / "cli_tables"
WIDTHS: Final = (80, 100, 120)
NOW: Final = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
MODEL: Final = "NVIDIA H100 80GB HBM3"
NAMES: Final = (
    "llama-3-70b-finetune-stage2",
    None,
    "notebook",
    "eval_suite",
    "größenvergleich",
    "a" * 60,
    "名前の長い訓練",
)
OWNERS: Final = ("ada", "bartholomew.longname@example.org", "chen", "root")

S = TypeVar("S", bound=Struct)


def filled(kind: type[S], /, **known: Any) -> S:
    """A server's answer with these fields; all others are empty."""
    hints = get_type_hints(kind)
    return kind(**{name: known[name] if name in known else _empty(of) for name, of in hints.items()})


def _empty(of: Any) -> Any:
    if get_origin(of) in (Union, types.UnionType):
        return None if type(None) in get_args(of) else _empty(get_args(of)[0])
    if get_origin(of) is tuple:
        return ()
    if of is datetime:
        return NOW
    if isinstance(of, type) and issubclass(of, Struct):
        return filled(of)
    return next(iter(of)) if isinstance(of, type) and issubclass(of, StrEnum) else of()


def session_id(number: int, task: int | None = None) -> str:
    """Ids of one minute share a prefix, as a server's do."""
    return f"ses_01a206ac-0376-7000-8000-{number * 7919:012x}" + ("" if task is None else f"_{task}")


REASONS: Final = (
    (
        Reason.INSUFFICIENT,
        "Each kernel needs 4 GPUs; agents have at most 0 free; held by "
        f"{session_id(101)}, {session_id(102)}, {session_id(103, 7)} and 6 more.",
    ),
    (Reason.BEHIND_HEAD, f"Waits behind {session_id(0)}, which is next in the queue."),
    (Reason.QUOTA, "Project vision has 0 GPUs left in its quota; this session needs 2 GPUs."),
)
HOLDERS: Final = {session_id(0): NAMES[0] or "", session_id(101): "llama-3-70b", session_id(103, 7): "sweep_7"}
"""The names of the sessions that block others; one has none."""
SLOTS: Final = (
    (("cuda.device", "4"), ("cpu", "64"), ("mem", "512g")),
    (("cuda.shares", "0.25"),),
    (("cpu", "2"),),
)


def session(number: int, **known: Any) -> Session:
    reason, message = REASONS[number % len(REASONS)]
    waits = filled(Verdict, reason=reason, message=message)
    slots = tuple(SlotAmount(slot=slot, amount=amount) for slot, amount in SLOTS[number % len(SLOTS)])
    given = {
        "id": session_id(number, 17 if number % 5 == 4 else None),
        "name": NAMES[number % len(NAMES)],
        "owner": OWNERS[number % len(OWNERS)],
        "state": SessionState.QUEUED,
        "priority": ("normal", "critical")[number % 2],
        "slots": slots,
        "cluster_size": 1 + 3 * (number % 3 == 0),
        "queued_at": NOW - timedelta(seconds=13 * 60 * (number + 1) ** 2),
        "waits": waits,
    }
    return filled(Session, **(given | known))


def queue() -> Table:
    entries = [
        QueueEntry(
            position=number + 1,
            session=session(
                number,
                queue_position=number + 1,
                expected_start=NOW + timedelta(hours=3 * number) if number % 2 else None,
            ),
        )
        for number in range(12)
    ]
    return queue_table(entries, names=HOLDERS, now=NOW, full_ids=False)


def sessions() -> Table:
    lost = filled(Failure, code="lost", message="The agent gpu-node-02 was lost, and no retries were left.")
    ended = {"waits": None, "state": SessionState.FAILED}
    shown = [
        *(session(number) for number in range(7)),
        session(7, waits=None, state=SessionState.RUNNING),
        session(8, **ended, exit_code=137),
        session(9, **ended, failure=lost),
    ]
    return sessions_table(shown, names=HOLDERS, now=NOW, full_ids=False)


def device(number: int, *, holders: Sequence[Holder], **known: Any) -> Device:
    used = sum(float(one.share) for one in holders)
    given = {
        "id": f"GPU-{number}",
        "name": f"cuda{number}",
        "kind": "cuda",
        "model": MODEL,
        "health": DeviceHealth.HEALTHY,
        "memory_bytes": 85_520_809_984,
        "memory_used_bytes": 9_300_000_000 * number,
        "utilization_pct": 12.6 * number,
        "capacity": "1.00",
        "used": f"{used:.2f}",
        "free": f"{1 - used:.2f}",
        "holders": tuple(holders),
    }
    return filled(Device, **(given | known))


def holder(number: int, share: str, *, until: datetime | None = None) -> Holder:
    return filled(
        Holder,
        kind=LeaseKind.SESSION,
        user=OWNERS[number % len(OWNERS)],
        session_id=session_id(100 + number),
        share=share,
        until=until,
    )


def agent(number: int, **known: Any) -> Agent:
    """With eight GPUs in all states."""
    devices = (
        device(0, holders=[holder(1, "1.00", until=NOW + timedelta(minutes=118))]),
        device(1, holders=[holder(1, "1.00", until=NOW + timedelta(days=6, hours=2))]),
        device(2, holders=[holder(2, "0.50"), holder(3, "0.25", until=NOW + timedelta(hours=1))]),
        device(3, holders=[holder(one, "0.25", until=NOW + timedelta(minutes=one)) for one in range(4)]),
        device(4, holders=[]),
        device(5, holders=[], health=DeviceHealth.UNHEALTHY, utilization_pct=None, memory_used_bytes=None),
        device(6, holders=[], foreign_usage=True),
        device(7, holders=[holder(3, "1.00")]),
    )
    given = {
        "id": f"gpu-node-{number:02}",
        "state": AgentState.ALIVE,
        "schedulable": True,
        "pool": "default",
        "capacity": _amounts(("cpu", "128"), ("cuda.device", "8"), ("cuda.shares", "8"), ("mem", "2t")),
        "occupied": _amounts(("cpu", "96"), ("cuda.device", "3"), ("cuda.shares", "1.75"), ("mem", "1536g")),
        "devices": devices,
        "gpu_alloc_map": json.dumps({one.id: one.used for one in devices}),
    }
    return filled(Agent, **(given | known))


def _amounts(*pairs: tuple[str, str]) -> tuple[SlotAmount, ...]:
    return tuple(SlotAmount(slot=slot, amount=amount) for slot, amount in pairs)


IMAGES: Final = tuple(f"ghcr.io/lab/train:{number}" for number in range(1, 6))


def agents() -> Table:
    labels = tuple(
        NameValue(name=name, value=value) for name, value in (("room", "b12"), ("rack", "r7"), ("net", "ib"))
    )
    note = "new fans are mounted on Tuesday morning; ask ada before you resume it, please"
    drained = {"draining": True, "schedulable": False, "note": note}
    shown = [
        agent(0),
        agent(1, labels=labels, capabilities=filled(Capabilities, images=IMAGES)),
        agent(2, **drained),
        agent(3, id="gpu-node-with-a-very-long-name-03"),
    ]
    return agents_table(shown)


def gpu_map(*, nodes: int = 2) -> GpuMap:
    names = {session_id(101): "llama-3-70b-finetune-stage2", session_id(102): "notebook"}
    return GpuMap([agent(number) for number in range(nodes)], names=names, now=NOW, full_ids=False)


def projects() -> Table:
    limits = filled(Quota, scope=QuotaScope.PROJECT, name="vision", max_slots=_amounts(("cuda.device", "4")), weight=2)
    shown = [
        filled(Project, name="vision", users=OWNERS, running=3, total_queued=12, allocated_gpus=2.25, gpu_hours=10234.5,
               gpu_hours_month=812.25, share=0.754, quota=limits),
        filled(Project, name="a-project-with-quite-a-long-name", users=("ada",), share=0.246),
    ]  # fmt: skip
    return projects_table(shown)


TABLES: Final[dict[str, Callable[[int], list[str]]]] = {
    "queue": lambda width: queue().in_terminal(width),
    "session-list": lambda width: sessions().in_terminal(width),
    "agents-list": lambda width: agents().in_terminal(width),
    "projects": lambda width: projects().in_terminal(width),
    "gpus": lambda width: gpu_map().in_terminal(width, colours=False),
    "gpus-compact": lambda width: gpu_map(nodes=8).compact(width, colours=False),
}


def printed(name: str, width: int) -> str:
    """A table as text."""
    return "\n".join(TABLES[name](width)) + "\n"


if __name__ == "__main__":
    RECORD.mkdir(exist_ok=True)
    for shown in TABLES:
        for columns in WIDTHS:
            (RECORD / f"{shown}-{columns}.txt").write_text(printed(shown, columns), encoding="utf-8")
