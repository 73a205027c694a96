"""Input of a simulation: jobs from a trace, an archive or a server, and the cluster they run on.

Node files are CSV or Parquet, one row per node: node, gpus; cpu_milli, memory_mib, gpu_model, gpu_memory_mib.
"""

import asyncio
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from aliquot.cli.simulation.rendering import bar
from aliquot.cli.simulation.server_history import read_agents, read_history
from aliquot.cli.trace_files import read_jobs, read_rows
from aliquot.client import Client
from aliquot.core.allocation.options import DEFAULT_OPTIONS
from aliquot.core.model.snapshot import AgentRow
from aliquot.core.simulation.cluster import Machine, machines, nodes, pool
from aliquot.core.simulation.trace import SECOND_US, Job, fitting, in_gangs, numbered, on_gpus_alone, window
from aliquot.core.workloads import program_of
from aliquot.settings import default_data_folder
from aliquot.store.archive.folder import SUFFIX, rows_of
from aliquot.store.mapping import decoder
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.ids import ProjectId, SessionId, SlotName, UserId
from aliquot_schema.resources.devices import DEVICES_MAX, MEMORY_BYTES_MAX
from aliquot_schema.resources.slots import Unlimited
from aliquot_schema.sessions import Priority, SessionSpec

CORES_MAX: Final = 1_000_000
"""Of one node of a file."""


def read_nodes(path: Path) -> tuple[AgentRow, ...]:
    """Read the nodes of a cluster, each with one agent.

    Raises:
        InvalidRequest: not a node file; the message names the row and the problem.
    """
    found: dict[str, Machine] = {}
    for number, row in enumerate(read_rows(path), start=1):
        try:
            machine = _machine(row)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InvalidRequest(f"{path}, row {number}: {type(error).__name__}: {error}") from error
        if machine.name in found:
            raise InvalidRequest(f"{path}, row {number}: {machine.name} appears twice")
        found[machine.name] = machine
    if not any(machine.gpus or machine.cores for machine in found.values()):
        raise InvalidRequest(f"{path} has no node with GPUs or cores")
    return machines(found.values())


def _machine(row: Mapping[str, Any]) -> Machine:
    return Machine(
        name=str(row["node"]),
        cores=_whole(row, "cpu_milli", most=CORES_MAX * 1000) // 1000,
        mem_bytes=_whole(row, "memory_mib", most=MEMORY_BYTES_MAX >> 20) << 20,
        gpus=_whole(row, "gpus", most=DEVICES_MAX),
        model=str(row.get("gpu_model") or ""),
        gpu_memory_bytes=_whole(row, "gpu_memory_mib", most=MEMORY_BYTES_MAX >> 20) << 20,
    )


def _whole(row: Mapping[str, Any], column: str, *, most: int) -> int:
    value = int(float(row.get(column) or 0))
    if value < 0:
        raise ValueError(f"{column}: {value} is negative")
    if value > most:
        raise ValueError(f"{column}: {value} is more than a node has; at most {most}")
    return value


Agents = tuple[AgentRow, ...]


class Source(Struct, frozen=True, kw_only=True):
    """The options that select the jobs and the cluster."""

    trace: Path | None
    server: str | None
    token_file: Path | None
    gpus: int | None
    gpus_each: int | None
    nodes: Path | None
    from_s: int | None
    until_s: int | None
    skips_unfitting: bool

    def __post_init__(self) -> None:
        """
        Raises:
            InvalidRequest: two sources, or none.
        """
        if (self.trace is None) == (self.server is None):
            raise InvalidRequest("give a trace file, or --server with a server whose history is to be simulated")
        if self.gpus is not None and self.nodes is not None:
            raise InvalidRequest("--gpus and --nodes exclude each other; give one of them", field="nodes")
        if self.gpus is None and self.nodes is None and self.server is None:
            raise InvalidRequest("give a cluster: --gpus for a pool of GPUs, or --nodes with a file", field="gpus")
        if self.gpus_each is not None and (self.gpus is None or self.gpus % self.gpus_each):
            given = "--gpus-each needs --gpus" if self.gpus is None else f"{self.gpus} GPUs do not make whole nodes"
            raise InvalidRequest(f"{given} with {self.gpus_each} each", field="gpus_each")

    @property
    def placement(self) -> str:
        """The default strategy; in a pool all GPUs are equal, so the cheapest one."""
        return "first_fit" if self.gpus is not None and self.gpus_each is None else "least_waste"

    def read(self) -> tuple[tuple[Job, ...], Agents]:
        """Read the jobs, by submission, and the agents to run them on.

        Raises:
            InvalidRequest: something cannot be read, or no job is left.
            ClientFailure: the server cannot be asked.
        """
        jobs, agents = self._read_server() if self.server is not None else (self._read_trace(), ())
        if self.gpus is not None:
            agents = pool(self.gpus) if self.gpus_each is None else self._even_nodes(self.gpus, self.gpus_each)
            jobs = on_gpus_alone(jobs)
            if self.gpus_each is not None:
                jobs = in_gangs(jobs, gpus_each=self.gpus_each)
        elif self.nodes is not None:
            agents = read_nodes(self.nodes)
        return self._fitting(self._window(jobs), agents), agents

    def _read_trace(self) -> tuple[Job, ...]:
        assert self.trace is not None
        if self.trace.is_dir():
            return read_archive(self.trace)
        return read_jobs(self.trace)

    def _read_server(self) -> tuple[tuple[Job, ...], Agents]:
        assert self.server is not None
        jobs, agents = asyncio.run(_from_server(self.server, token=_token(self.token_file)))
        if not jobs:
            raise InvalidRequest(f"no session of {self.server} has run and ended yet", field="server")
        print(f"read {len(jobs)} sessions and {len(agents)} agents from {self.server}", file=sys.stderr)
        return jobs, agents

    @staticmethod
    def _even_nodes(gpus: int, gpus_each: int) -> Agents:
        return nodes(gpus // gpus_each, gpus_each=gpus_each)

    def _window(self, jobs: tuple[Job, ...]) -> tuple[Job, ...]:
        if not jobs:
            raise InvalidRequest("no job requests GPUs", field="gpus")
        seconds = [job.submit_us // SECOND_US for job in jobs]
        from_s = min(seconds) if self.from_s is None else self.from_s
        until_s = max(seconds) + 1 if self.until_s is None else self.until_s
        chosen = window(jobs, from_s=from_s, until_s=until_s)
        if not chosen:
            raise InvalidRequest(f"no job was submitted between {from_s} s and {until_s} s", field="from_s")
        return chosen

    def _fitting(self, jobs: tuple[Job, ...], agents: Agents) -> tuple[Job, ...]:
        if not self.skips_unfitting:
            return numbered(jobs)
        kept, unfitting = fitting(jobs, agents, DEFAULT_OPTIONS)
        if unfitting:
            print(f"left out {len(unfitting)} jobs that do not fit the empty cluster", file=sys.stderr)
        if not kept:
            raise InvalidRequest("no job fits the cluster, even when it is empty")
        return numbered(kept)


async def _from_server(url: str, *, token: str) -> tuple[tuple[Job, ...], Agents]:
    async with Client(url, token) as client:
        with bar("sessions", total=None) as on_progress:
            jobs = await read_history(client, on_progress=on_progress)
        return jobs, await read_agents(client)


def _token(path: Path | None) -> str:
    path = path or default_data_folder() / "token"
    try:
        token = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"the token cannot be read: {path}: {error}", field="token_file") from error
    if not token.isprintable() or not token:
        raise InvalidRequest(f"{path} does not contain a token", field="token_file")
    return token


_SPEC = decoder(SessionSpec)


def read_archive(folder: Path) -> tuple[Job, ...]:
    """Read every archived session that ran and ended, by submission.

    Raises:
        InvalidRequest: there is none.
        StoreUnavailable: a file cannot be read, or pyarrow is missing.
    """
    files = sorted(folder.glob(f"sessions-*{SUFFIX}"))
    if not files:
        raise InvalidRequest(f"{folder} has no archived sessions; their files are sessions-000001{SUFFIX} and so on")
    # A session that ran again after it was archived is in several files: the newest counts.
    newest = {row["id"]: row for file in files for row in _rows(file)}
    jobs = numbered(_job(row) for row in newest.values() if row["started_us"] and row["attempt"])
    if not jobs:
        raise InvalidRequest(f"no session in {folder} has run and ended")
    return jobs


def _rows(file: Path) -> Iterator[Mapping[str, Any]]:
    for rows in rows_of(file):
        yield from rows


def _job(row: Mapping[str, Any]) -> Job:
    spec: SessionSpec = _SPEC.decode(row["spec"])
    amounts = sorted((slot, amount) for slot, amount in spec.slots.items() if not isinstance(amount, Unlimited))
    return Job(
        id=SessionId(""),
        user=UserId(row["owner"]),
        project=ProjectId(row["project"]),
        submit_us=row["queued_us"],
        duration_ms=max((row["ended_us"] - row["started_us"]) // 1000, 1),
        request=tuple((SlotName(slot), amount) for slot, amount in amounts),
        cluster_size=spec.cluster_size,
        limit_ms=spec.time_limit_ms,
        priority=Priority(row["priority"]),
        preemptible=spec.preemptible,
        program=program_of(spec.argv),
        gpu_memory_bytes=spec.gpu_memory_bytes,
        models=spec.models,
    )
