"""State export: writes the state of the cluster to JSON files, for tools that read files; one way only.

`aliquot state export` asks a running server. With `state-export` a server writes the files by itself.
"""

import asyncio
import json
import logging
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from aliquot.cli.connection.output import print_json
from aliquot.cli.connection.server import REFUSED, AsJson, AtServer, InCluster, TokenFile, connected, fail
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.resources.units import parse_duration

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from aliquot.client import BlockingClient, Client

log: Final = logging.getLogger("aliquot.state_export")

state: Final = typer.Typer(no_args_is_help=True, help="Write the state of the cluster to files.")

AGENTS: Final = """
query ($after: String) { agents(first: 100, after: $after) { revision
  pageInfo { hasNextPage endCursor }
  edges { node {
    id node_id hostname state schedulable draining pool labels { name value } gpu_alloc_map
    capacity { slot amount } occupied { slot amount }
    devices { id name kind model health foreign_usage external: foreign_usage capacity used free
      holders { lease_id kind user session_id kernel_id agent_id share since until } }
  } }
} }
"""
QUEUE: Final = """
query ($after: String) { queue(first: 100, after: $after) { revision
  pageInfo { hasNextPage endCursor }
  edges { node { position session {
    id owner project pool name priority state slots { slot amount } cluster_size queued_at waits { reason message }
  } } }
} }
"""
ACTIVE: Final = """
query ($after: String) { sessions(first: 100, after: $after,
    filter: { states: [scheduled, allocating, running, preempting] }) { revision
  pageInfo { hasNextPage endCursor }
  edges { node {
    id owner project pool name priority state attempt started_at
    kernels { id agent_id state resource_spec { slot devices { device_id amount } } }
  } }
} }
"""
RAY: Final = "{ cluster { ray { head_node connected version workers nodes reason } } }"
SERVER: Final = "{ orchestrator { role address leader_address epoch leads_since state stopped_by stopped_at note } }"


@state.callback()
def describe() -> None:
    """Write the state of the cluster to files."""


@state.command("export")
def export(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder for the files; created if missing.")],
    every: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Repeat at this interval, like 30s or 5m; a number is seconds."),
    ] = None,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Write cluster_state.json, job_queue.json, orchestrator_state.json and gpu_allocation.json.

    Each file is replaced atomically. With --json, print one object per export.
    """
    pause_s = None if every is None else interval_s(every)
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        if pause_s is None:
            _write(client, folder, as_json=as_json)
            return
        while True:
            _write_if_reachable(client, folder, as_json=as_json)
            time.sleep(pause_s)


def interval_s(text: str) -> float:
    """Read the interval of `--every`, in seconds, above zero."""
    try:
        found = parse_duration(text)
    except InvalidRequest as error:
        raise typer.BadParameter(error.message, param_hint="--every") from None
    if not found:
        raise typer.BadParameter(f"{text!r} is zero; give 1s or more", param_hint="--every")
    return found


async def read_state(client: "Client") -> dict[str, Any]:
    """The contents of the files, by name. `revision` is the last event that a file includes."""
    from msgspec import to_builtins

    (orchestrator,) = (await client.execute(SERVER)).values()
    ray = (await client.execute(RAY))["cluster"]["ray"]
    agents, agents_at = await _all(client, AGENTS)
    queue, queue_at = await _all(client, QUEUE)
    active, active_at = await _all(client, ACTIVE)
    for agent in agents:
        agent["gpu_alloc_map"] = json.loads(agent["gpu_alloc_map"])
    policy = to_builtins(await client.policy())
    allocation = {
        agent["id"]: {
            "map": agent["gpu_alloc_map"],
            "holders": {one["id"]: one["holders"] for one in agent["devices"] if one["holders"]},
        }
        for agent in agents
    }
    parts = {"policy": policy, "active": active}
    return {
        "cluster_state.json": {"format": 1, "revision": agents_at, "ray": ray, "agents": agents},
        "job_queue.json": {"format": 1, "revision": queue_at, "queue": queue},
        "orchestrator_state.json": {"format": 1, "revision": active_at, **orchestrator, **parts},
        "gpu_allocation.json": {"format": 1, "revision": agents_at, "agents": allocation},
    }


def write_files(folder: Path, files: dict[str, Any]) -> None:
    """Replace files, each one atomically."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        partial = folder / f".{name}.partial"
        with partial.open("w", encoding="utf-8") as file:
            json.dump(content, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        partial.rename(folder / name)


EXPORT_S: Final = 30.0
"""Interval at which a server writes the files."""


async def keep_exported(app: "ASGIApp", *, token: str, folder: Path, every_s: float = EXPORT_S) -> None:
    """Write the files of the server behind `app` every `every_s` seconds, until canceled.

    Failures are logged once until they end; the last complete files stay. Files are written in another thread.
    """
    import httpx

    from aliquot.client import Client

    fault: str | None = None
    async with Client("http://127.0.0.1", token, transport=httpx.ASGITransport(app)) as client:
        while True:
            try:
                await asyncio.to_thread(write_files, folder, await read_state(client))
                if fault is not None:
                    log.info("the state is exported to %s again", folder)
                fault = None
            except Exception as error:
                words = str(error) or type(error).__name__
                if words != fault:
                    log.warning("the state cannot be exported to %s; next attempt in %g s: %s", folder, every_s, words)
                fault = words
            await asyncio.sleep(every_s)


def _write(client: "BlockingClient", folder: Path, *, as_json: bool) -> None:
    files = client.run(read_state)
    try:
        write_files(folder, files)
    except OSError as error:
        fail(f"{error.filename or folder} cannot be written: {error.strerror}", code=REFUSED)
    if as_json:
        written = [{"path": str(folder / name), "revision": content["revision"]} for name, content in files.items()]
        print_json({"files": written})


def _write_if_reachable(client: "BlockingClient", folder: Path, *, as_json: bool) -> None:
    """Keep the old files while the server is restarted."""
    from aliquot.client.errors import ServerUnreachable, UnexpectedAnswer

    try:
        _write(client, folder, as_json=as_json)
    except (ServerUnreachable, UnexpectedAnswer) as error:
        print(error, file=sys.stderr, flush=True)


async def _all(client: "Client", query: str) -> tuple[list[dict[str, Any]], int]:
    """All items, and the revision of the first page."""
    found: list[dict[str, Any]] = []
    after: str | None = None
    revision: int | None = None
    while True:
        (page,) = (await client.execute(query, {"after": after})).values()
        revision = page["revision"] if revision is None else revision
        found += [edge["node"] for edge in page["edges"]]
        if not page["pageInfo"]["hasNextPage"]:
            return found, revision
        after = page["pageInfo"]["endCursor"]
