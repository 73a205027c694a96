"""Tools of the MCP server: what a program may ask and do here, as functions over the Python client.

Each call acts with the caller's key, so it has that key's rights, limits and budget, and its changes are in the audit.
Source of the protocol: https://modelcontextprotocol.io, by its official Python SDK (`aliquot[mcp]`).
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from importlib.metadata import version
from typing import Annotated, Any, Final

import anyio
import msgspec
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.types import ToolAnnotations
from pydantic import Field

from aliquot.client.client import Client
from aliquot.client.errors import ClientFailure
from aliquot.client.generated.agents import Agent
from aliquot.client.generated.bookings import ReserveInput
from aliquot.client.generated.inputs import (
    CancelSessionInput,
    CommandInput,
    CreateSessionInput,
    NameValueInput,
    SlotAmountInput,
)
from aliquot.client.generated.previews import SessionPreview
from aliquot.client.generated.scalars import SlotAmount
from aliquot.client.generated.sessions import Session
from aliquot.client.sessions import ENDED
from aliquot_schema.errors import AliquotError

WAIT_S_MAX: Final = 600.0
PIECE_BYTES_MIN: Final = 4
OUTPUT_BYTES_MAX: Final = 64 * 1024
ROWS_MAX: Final = 100
INSTRUCTIONS: Final = (
    "Aliquot shares the GPUs of a cluster among people. `gpus` shows the devices and who holds them, `submit` queues a "
    "job (with `dry_run` it only says what would happen), `why` explains why it waits, `wait` and `logs` follow it. "
    "Ask for as little as the job needs: 0.25 of a GPU is possible. Give `time_limit_s` where you know it: short jobs "
    "start earlier."
)
READS: Final = ToolAnnotations(read_only_hint=True, open_world_hint=False)
SUBMITS: Final = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
)
CANCELS: Final = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)

Connect = Callable[[Context], Client]
"""A client with the key of the program that sent a request."""
Found = dict[str, Any]

SessionId = Annotated[str, Field(description="Id of the session, ses_...; `submit` and `sessions` give it.")]


def tool_server(connect: Connect) -> MCPServer:
    """An MCP server with all tools.

    Args:
        connect: makes the client of one call; it is closed after the call.
    """
    tools = ClusterTools(connect)
    offered = (
        (READS, (tools.gpus, tools.queue, tools.sessions, tools.why, tools.logs, tools.wait, tools.usage)),
        (SUBMITS, (tools.submit, tools.reserve)),
        (CANCELS, (tools.cancel,)),
    )
    return MCPServer(
        "aliquot",
        instructions=INSTRUCTIONS,
        version=version("aliquot"),
        log_level="WARNING",
        tools=[_tool(function, annotations) for annotations, functions in offered for function in functions],
    )


def _tool(function: Callable[..., Any], annotations: ToolAnnotations) -> Tool:
    """A tool that refuses unknown arguments: with `gpu` in place of `gpus` a job would start without GPUs."""
    tool = Tool.from_function(function, annotations=annotations, structured_output=False)
    arguments = tool.fn_metadata.arg_model
    arguments.model_config["extra"] = "forbid"
    arguments.model_rebuild(force=True)
    tool.parameters = arguments.model_json_schema(by_alias=True)
    return tool


class ClusterTools:
    """The tools. Refusals and failures become errors of the tool, in the server's words."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect

    async def gpus(self, context: Context) -> Found:
        """Show every GPU: node, model, memory, the part that is held, and by which sessions."""
        async with self._client(context) as client:
            page = await client.agents(first=ROWS_MAX)
            return {"nodes": [_agent_row(edge.node) for edge in page.edges], "in_all": page.total_count}

    async def queue(
        self, context: Context, first: Annotated[int, Field(ge=1, le=ROWS_MAX, description="How many, at most.")] = 20
    ) -> Found:
        """List the sessions that wait, in the order in which they are considered, and why each waits."""
        async with self._client(context) as client:
            page = await client.queue(first=first)
            rows = [{**session_row(edge.node.session), "queue_position": edge.node.position} for edge in page.edges]
            return {"waiting": rows, "in_all": page.total_count}

    async def sessions(
        self, context: Context, first: Annotated[int, Field(ge=1, le=ROWS_MAX, description="How many, at most.")] = 20
    ) -> Found:
        """List the newest sessions that this key may see, with their states."""
        async with self._client(context) as client:
            page = await client.sessions(first=first)
            return {"sessions": [session_row(edge.node) for edge in page.edges]}

    async def why(self, context: Context, id: SessionId) -> Found:
        """Explain why a session waits, failed or was canceled, with the numbers behind it."""
        async with self._client(context) as client:
            found = await client.get_session(id)
            return {
                **session_row(found),
                "expected_start": _time(found.expected_start),
                "waits_for": [] if found.waits is None else list(found.waits.blocked_by),
                "failure": None if found.failure is None else found.failure.message,
            }

    async def submit(
        self,
        context: Context,
        command: Annotated[str, Field(description="Text for /bin/sh.")],
        gpus: Annotated[float, Field(ge=0, description="GPUs of each process group: 0.25 is a quarter of one.")] = 0,
        cpus: Annotated[float, Field(gt=0, description="CPU cores of each process group.")] = 1,
        memory: Annotated[str | None, Field(description="Memory of each process group, like 8g.")] = None,
        processes: Annotated[int, Field(ge=1, description="Process groups, which start together.")] = 1,
        time_limit_s: Annotated[float | None, Field(gt=0, description="Seconds after which it is stopped.")] = None,
        preemptible: Annotated[bool, Field(description="Whether others may stop it for more urgent work.")] = False,
        project: Annotated[str | None, Field(description="Project to charge.")] = None,
        name: Annotated[str | None, Field(description="Name for display.")] = None,
        environment: Annotated[dict[str, str] | None, Field(description="Variables to add.")] = None,
        idempotency_key: Annotated[
            str | None, Field(description="A repeated call with the same key returns the first session.")
        ] = None,
        dry_run: Annotated[
            bool, Field(description="Only say whether it would start now and where, or why it would wait.")
        ] = False,
    ) -> Found:
        """Submit a job. It starts when its GPUs are free; the answer has its id and, if it waits, the reason."""
        asked = {"cpu": f"{cpus:.15g}", "mem": memory, "gpu": f"{gpus:.15g}" if gpus else None}
        wanted = CreateSessionInput(
            command=CommandInput(shell=command),
            slots=[SlotAmountInput(slot=slot, amount=amount) for slot, amount in asked.items() if amount is not None],
            cluster_size=processes,
            time_limit=time_limit_s,
            preemptible=preemptible,
            project=project,
            name=name,
            environment=[NameValueInput(name=key, value=value) for key, value in (environment or {}).items()],
            idempotency_key=idempotency_key,
        )
        async with self._client(context) as client:
            if dry_run:
                return preview_row(await client.preview_session(wanted))
            return session_row(await client.submit_once(wanted))

    async def logs(
        self,
        context: Context,
        id: SessionId,
        rank: Annotated[int, Field(ge=0, description="Which process group of the session.")] = 0,
        bytes_max: Annotated[
            int, Field(ge=PIECE_BYTES_MIN, le=OUTPUT_BYTES_MAX, description="How much, from the end.")
        ] = 8192,
    ) -> Found:
        """Read the end of a session's output."""
        async with self._client(context) as client:
            log = await client.session_log(id, rank=rank, offset=-bytes_max, bytes_max=bytes_max)
            return {"text": log.text, "starts_at_byte": log.offset, "bytes_so_far": log.length}

    async def wait(
        self,
        context: Context,
        id: SessionId,
        timeout_s: Annotated[float, Field(gt=0, le=WAIT_S_MAX, description="Seconds, at most.")] = 60,
    ) -> Found:
        """Wait until a session has ended, or the time is over, and return its state."""
        async with self._client(context) as client:
            found = await client.get_session(id)
            with anyio.move_on_after(timeout_s):
                found = await client.wait(id)
            if found.state not in ENDED:
                found = await client.get_session(id)
            return {**session_row(found), "has_ended": found.state in ENDED}

    async def cancel(self, context: Context, id: SessionId) -> Found:
        """Cancel a session that has not ended. Its processes are stopped."""
        async with self._client(context) as client:
            return session_row((await client.cancel_session(CancelSessionInput(id=id))).session)

    async def reserve(
        self,
        context: Context,
        name: Annotated[str, Field(description="A name of your choice; sessions are submitted into it by this name.")],
        starts_at: Annotated[datetime, Field(description="Start, ISO 8601 with a zone, like 2027-01-31T14:00:00Z.")],
        hours: Annotated[float, Field(gt=0, le=31 * 24, description="Length of the window.")],
        gpus: Annotated[int, Field(ge=1, description="Number of whole GPUs.")] = 1,
        models: Annotated[list[str] | None, Field(description="Allowed models, like *H100*; none = any.")] = None,
        project: Annotated[str | None, Field(description="Project to charge.")] = None,
    ) -> Found:
        """Book GPUs for a window of time. They are kept free for it, or the booking is refused with the reason."""
        if starts_at.tzinfo is None:
            raise ToolError("starts_at: give the time zone too, like 2027-01-31T14:00:00Z")
        try:
            ends_at = starts_at + timedelta(hours=hours)
        except OverflowError:
            raise ToolError("starts_at: the window ends after the year 9999") from None
        wanted = ReserveInput(
            name=name, starts_at=starts_at, ends_at=ends_at, gpus=gpus, models=models, project=project
        )
        async with self._client(context) as client:
            made = (await client.reserve(wanted)).booking
            return {
                "id": made.id,
                "name": made.name,
                "state": made.state.value,
                "starts_at": made.starts_at.isoformat(),
                "ends_at": made.ends_at.isoformat(),
                "gpus": [f"{gpu.hostname}/{gpu.name}" for gpu in made.devices],
            }

    async def usage(self, context: Context) -> Found:
        """Show GPU-hours by project and user, the account and role that this key acts as, and the key's budget."""
        async with self._client(context) as client:
            me, rows = await client.me(), await client.usage()
            mine = [key for key in await client.api_keys(user=me.name) if key.id == me.key_id]
            found = {"me": msgspec.to_builtins(me), "usage": msgspec.to_builtins(rows)}
            return {**found, "key": msgspec.to_builtins(mine[0]) if mine else None}

    @asynccontextmanager
    async def _client(self, context: Context) -> AsyncIterator[Client]:
        try:
            async with self._connect(context) as client:
                yield client
        except (ClientFailure, AliquotError) as error:
            raise ToolError(str(error)) from error


def session_row(one: Session) -> Found:
    """What a program needs to know of a session."""
    return {
        "id": one.id,
        "name": one.name,
        "owner": one.owner,
        "project": one.project,
        "state": one.state.value,
        "request": _amounts(one.slots),
        "processes": one.cluster_size,
        "queue_position": one.queue_position,
        "waits_because": None if one.waits is None else one.waits.message,
        "started_at": _time(one.started_at),
        "ended_at": _time(one.ended_at),
        "exit_code": one.exit_code,
    }


def preview_row(found: SessionPreview) -> Found:
    """The decision that would be taken now."""
    return {
        "starts_now": found.starts_now,
        "nodes": sorted({kernel.node_id for kernel in found.kernels}),
        "queue_position": found.queue_position,
        "would_wait_because": None if found.waits is None else found.waits.message,
        "would_wait_until": _time(found.expected_start or found.estimated_start),
        "would_stop": [one.session_id for one in found.displaces],
        "failure": None if found.failure is None else found.failure.message,
    }


def _agent_row(agent: Agent) -> Found:
    devices = [
        {
            "id": device.id,
            "name": device.name,
            "model": device.model,
            "memory_gib": round(device.memory_bytes / 2**30, 1),
            "free": float(device.free),
            "held": float(device.used),
            "holders": [holder.session_id for holder in device.holders],
            "utilization_pct": device.utilization_pct,
            "health": device.health.value,
        }
        for device in agent.devices
        if device.kind not in ("cpu", "mem")
    ]
    return {
        "agent": agent.id,
        "node": agent.hostname,
        "pool": agent.pool,
        "takes_new_sessions": agent.schedulable and not agent.draining,
        "gpus": devices,
    }


def _amounts(slots: Sequence[SlotAmount]) -> Mapping[str, str]:
    return {one.slot: one.amount for one in slots}


def _time(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()
