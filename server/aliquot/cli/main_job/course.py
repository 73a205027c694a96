"""Submits the sessions, follows the queue, compares at every event, cancels one, and notes what it saw."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from aliquot.cli.main_job import queries
from aliquot.cli.main_job.cluster_view import read_cluster, until_joined
from aliquot.cli.main_job.map_check import AGAIN_S, MapCheck
from aliquot.cli.main_job.tasks import READY, RESISTING, TASKS, Task
from aliquot.client import Client, SubscriptionClosed
from aliquot_schema.states import ENDED, SessionState


@dataclass(slots=True, kw_only=True)
class Course:
    """What happened, in the order in which it did."""

    check: MapCheck
    ids: dict[str, str] = field(default_factory=dict)
    """Session id by the name of its task."""
    moves: dict[str, list[SessionState]] = field(default_factory=dict)
    """States by session id, each once, in the order of events."""
    scheduled: list[str] = field(default_factory=list)
    """Session ids in the order in which they were given devices."""
    events: int = 0
    held_after_cancel: int = 0
    """Comparisons in which the canceled session still had processes, and devices."""
    outputs: dict[tuple[str, int], str] = field(default_factory=dict)
    """What was printed, by (task name, rank)."""
    sessions: dict[str, dict[str, Any]] = field(default_factory=dict)
    """How the server describes the session in the end, by task name."""


async def run_course(client: Client, *, data_folder: Path) -> Course:
    """Run all tasks until the cluster is idle again.

    Args:
        data_folder: everything that agents started has its files below it.
    """
    course = Course(check=MapCheck(client=client, data_folder=data_folder))
    await until_joined(client, agents=2)
    # First come, first served, with nobody passing the head, is the one order that can be foretold.
    await client.change(queries.IN_ORDER)
    revision = (await read_cluster(client)).revision
    updates: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    async with asyncio.TaskGroup() as group:
        follower = group.create_task(_follow(client, after=revision, into=updates))
        acting = group.create_task(_act(client, course))
        await _compare_at_every_event(course, updates)
        await acting
        follower.cancel()
    await _until_idle(course)
    for task in TASKS:
        await _collect(client, course, task)
    return course


async def _act(client: Client, course: Course) -> None:
    for task in TASKS:
        course.ids[task.name] = await _submit(client, task)
    await _cancel(client, course)


async def _submit(client: Client, task: Task) -> str:
    request = {
        "name": task.name,
        "command": {"shell": task.script},
        "slots": [{"slot": slot, "amount": amount} for slot, amount in task.slots.items()],
        "cluster_size": task.cluster_size,
        "idempotency_key": f"main-job-{task.name}",
    }
    answer = await client.change(queries.CREATE, {"input": request})
    return str(answer["session"]["id"])


async def _follow(client: Client, *, after: int, into: asyncio.Queue[dict[str, Any]]) -> None:
    """Keep reading, however slow the comparisons are; go on from the last number when the socket closes."""
    while True:
        try:
            async with aclosing(client.subscribe(queries.UPDATES, {"after": after})) as updates:
                async for data in updates:
                    after = data["queue_updates"]["event_number"]
                    into.put_nowait(data["queue_updates"])
        except SubscriptionClosed:
            await asyncio.sleep(AGAIN_S)


async def _compare_at_every_event(course: Course, updates: asyncio.Queue[dict[str, Any]]) -> None:
    waiting = {task.name for task in TASKS}
    while waiting:
        update = await updates.get()
        course.events += 1
        _note(course, session_id=update["session"]["id"], state=SessionState(update["session"]["state"]))
        await course.check.compare()
        waiting = {name for name in waiting if not _has_ended(course, name)}


def _has_ended(course: Course, name: str) -> bool:
    moves = course.moves.get(course.ids.get(name, ""), [])
    return bool(moves) and moves[-1] in ENDED


def _note(course: Course, *, session_id: str, state: SessionState) -> None:
    moves = course.moves.setdefault(session_id, [])
    if moves[-1:] != [state]:
        moves.append(state)
        if state is SessionState.SCHEDULED:
            course.scheduled.append(session_id)


async def _cancel(client: Client, course: Course) -> None:
    """Cancel the resisting session once it says that it is there, and watch its devices until its processes end."""
    session_id = course.ids[RESISTING.name]
    async with aclosing(_output(client, session_id, rank=0)) as pieces:
        seen = ""
        async for piece in pieces:
            seen += piece
            if READY in seen:
                break
    await client.change(queries.CANCEL, {"id": session_id})
    watch = replace(course.check, compared=0, from_processes_alone=0)
    while True:
        _, live = await watch.compare()
        if not any(kernel_id.startswith(f"{session_id}.") for kernel_id in live):
            return
        # The comparison itself would have told if a process had been there without its devices.
        course.held_after_cancel += 1


async def _until_idle(course: Course) -> None:
    while True:
        cluster, _ = await course.check.compare()
        if cluster.is_idle:
            return
        await asyncio.sleep(AGAIN_S)


async def _collect(client: Client, course: Course, task: Task) -> None:
    session_id = course.ids[task.name]
    course.sessions[task.name] = (await client.execute(queries.SESSION, {"id": session_id}))["session"]
    for rank in range(task.cluster_size):
        async with aclosing(_output(client, session_id, rank=rank)) as pieces:
            course.outputs[task.name, rank] = "".join([piece async for piece in pieces])


async def _output(client: Client, session_id: str, *, rank: int) -> AsyncGenerator[str, None]:
    async with aclosing(client.subscribe(queries.LOGS, {"id": session_id, "rank": rank})) as chunks:
        async for data in chunks:
            yield data["session_logs"]["text"]
            if data["session_logs"]["at_end"]:
                return
