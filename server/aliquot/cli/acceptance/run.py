"""Acceptance run: submits the sessions, compares maps and processes at every event, cancels one, and records it all."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from aliquot.cli.acceptance.checks import POLL_S, MapCheck
from aliquot.cli.acceptance.cluster_view import read_cluster, until_joined
from aliquot.cli.acceptance.jobs import READY, RESISTING, TASKS, Task
from aliquot.client import Client, SubscriptionClosed
from aliquot_schema.states import ENDED, SessionState


@dataclass(slots=True, kw_only=True)
class AcceptanceRun:
    """The record of a run."""

    check: MapCheck
    ids: dict[str, str] = field(default_factory=dict)
    """Session id by task name."""
    moves: dict[str, list[SessionState]] = field(default_factory=dict)
    """States by session id, each once, in the order of events."""
    scheduled: list[str] = field(default_factory=list)
    """Session ids in the order in which they received devices."""
    events: int = 0
    held_after_cancel: int = 0
    """Comparisons in which the canceled session still had processes and devices."""
    outputs: dict[tuple[str, int], str] = field(default_factory=dict)
    """Output by (task name, rank)."""
    sessions: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The server's final description of each session, by task name."""


async def run_acceptance(client: Client, *, data_folder: Path) -> AcceptanceRun:
    """Run all tasks until the cluster is idle again.

    Args:
        data_folder: the folder that contains all files of the agents.
    """
    run = AcceptanceRun(check=MapCheck(client=client, data_folder=data_folder))
    await until_joined(client, agents=2)
    # FCFS without backfill is the only order that can be predicted.
    await client.change(IN_ORDER)
    revision = (await read_cluster(client)).revision
    updates: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    async with asyncio.TaskGroup() as group:
        follower = group.create_task(_follow(client, after=revision, into=updates))
        acting = group.create_task(_act(client, run))
        await _compare_at_every_event(run, updates)
        await acting
        follower.cancel()
    await _until_idle(run)
    for task in TASKS:
        await _collect(client, run, task)
    return run


async def _act(client: Client, run: AcceptanceRun) -> None:
    for task in TASKS:
        run.ids[task.name] = await _submit(client, task)
    await _cancel(client, run)


async def _submit(client: Client, task: Task) -> str:
    request = {
        "name": task.name,
        "command": {"shell": task.script},
        "slots": [{"slot": slot, "amount": amount} for slot, amount in task.slots.items()],
        "cluster_size": task.cluster_size,
        "idempotency_key": f"main-job-{task.name}",
    }
    answer = await client.change(CREATE, {"input": request})
    return str(answer["session"]["id"])


async def _follow(client: Client, *, after: int, into: asyncio.Queue[dict[str, Any]]) -> None:
    """Read on, however slow the comparisons are; after a disconnect, resume at the last event."""
    while True:
        try:
            async with aclosing(client.subscribe(UPDATES, {"after": after})) as updates:
                async for data in updates:
                    after = data["queue_updates"]["event_number"]
                    into.put_nowait(data["queue_updates"])
        except SubscriptionClosed:
            await asyncio.sleep(POLL_S)


async def _compare_at_every_event(run: AcceptanceRun, updates: asyncio.Queue[dict[str, Any]]) -> None:
    waiting = {task.name for task in TASKS}
    while waiting:
        update = await updates.get()
        run.events += 1
        _record(run, session_id=update["session"]["id"], state=SessionState(update["session"]["state"]))
        await run.check.compare()
        waiting = {name for name in waiting if not _has_ended(run, name)}


def _has_ended(run: AcceptanceRun, name: str) -> bool:
    moves = run.moves.get(run.ids.get(name, ""), [])
    return bool(moves) and moves[-1] in ENDED


def _record(run: AcceptanceRun, *, session_id: str, state: SessionState) -> None:
    moves = run.moves.setdefault(session_id, [])
    if moves[-1:] != [state]:
        moves.append(state)
        if state is SessionState.SCHEDULED:
            run.scheduled.append(session_id)


async def _cancel(client: Client, run: AcceptanceRun) -> None:
    """Cancel the resisting session once it has printed `READY`, and watch its devices until its processes end."""
    session_id = run.ids[RESISTING.name]
    async with aclosing(_output(client, session_id, rank=0)) as pieces:
        seen = ""
        async for piece in pieces:
            seen += piece
            if READY in seen:
                break
    await client.change(CANCEL, {"id": session_id})
    check = replace(run.check, compared=0, from_processes_alone=0)
    while True:
        _, live = await check.compare()
        if not any(kernel_id.startswith(f"{session_id}.") for kernel_id in live):
            return
        # A process without its devices would have been a difference in this comparison.
        run.held_after_cancel += 1


async def _until_idle(run: AcceptanceRun) -> None:
    while True:
        cluster, _ = await run.check.compare()
        if cluster.is_idle:
            return
        await asyncio.sleep(POLL_S)


async def _collect(client: Client, run: AcceptanceRun, task: Task) -> None:
    session_id = run.ids[task.name]
    run.sessions[task.name] = (await client.execute(SESSION, {"id": session_id}))["session"]
    for rank in range(task.cluster_size):
        async with aclosing(_output(client, session_id, rank=rank)) as pieces:
            run.outputs[task.name, rank] = "".join([piece async for piece in pieces])


async def _output(client: Client, session_id: str, *, rank: int) -> AsyncGenerator[str, None]:
    async with aclosing(client.subscribe(LOGS, {"id": session_id, "rank": rank})) as chunks:
        async for data in chunks:
            yield data["session_logs"]["text"]
            if data["session_logs"]["at_end"]:
                return


IN_ORDER: Final = """
mutation { update_policy(input: {order: "fcfs", backfill: "none"}) {
  __typename ... on Error { code message } ... on PolicyChangeSuccess { revision }
} }
"""
CREATE: Final = """
mutation ($input: CreateSessionInput!) {
  create_session(input: $input) {
    __typename
    ... on CreateSessionSuccess { revision session { id } }
    ... on Error { code message }
  }
}
"""

CANCEL: Final = """
mutation ($id: ID!) {
  cancel_session(input: { id: $id }) {
    __typename
    ... on CancelSessionSuccess { session { id state holds_devices } }
    ... on Error { code message }
  }
}
"""

UPDATES: Final = """
subscription ($after: BigInt) {
  queue_updates(after: $after) { event_number at kind session { id state } }
}
"""

LOGS: Final = """
subscription ($id: ID!, $rank: Int!) {
  session_logs(id: $id, rank: $rank) { text at_end }
}
"""

SESSION: Final = """
query ($id: ID!) {
  session(id: $id) {
    id state exit_code signal holds_devices queued_at scheduled_at started_at ended_at
    failure { code message }
    kernels { rank agent_id state started_at ended_at resource_spec { slot devices { device_id amount } } }
  }
}
"""
