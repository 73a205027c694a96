"""Where jobs and cluster of a simulation come from."""

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path

from aliquot.cli.simulation.node_files import read_nodes
from aliquot.cli.simulation.progress import bar
from aliquot.cli.simulation.server_history import read_agents, read_history
from aliquot.cli.trace_files import read_jobs
from aliquot.client import Client
from aliquot.core.allocation.options import DEFAULT_OPTIONS
from aliquot.core.simulation.cluster import nodes, pool
from aliquot.core.simulation.fitting import fitting
from aliquot.core.simulation.trace import SECOND_US, Job, numbered, window
from aliquot.core.simulation.workload import on_gpus_alone
from aliquot.core.snapshot import AgentRow
from aliquot.settings import default_data_folder
from aliquot_schema.errors import InvalidRequest

Agents = tuple[AgentRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What was asked for on the command line."""

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
            InvalidRequest: two sources at once, or none.
        """
        if (self.trace is None) == (self.server is None):
            raise InvalidRequest("name a trace file, or --server with a server whose history is to be run")
        if self.gpus is not None and self.nodes is not None:
            raise InvalidRequest("--gpus and --nodes are two clusters; name one", field="nodes")
        if self.gpus is None and self.nodes is None and self.server is None:
            raise InvalidRequest("name the cluster: --gpus for a pool of GPUs, or --nodes with a file", field="gpus")
        if self.gpus_each is not None and (self.gpus is None or self.gpus % self.gpus_each):
            given = "--gpus-each needs --gpus" if self.gpus is None else f"{self.gpus} GPUs are not a number of nodes"
            raise InvalidRequest(f"{given} with {self.gpus_each} each", field="gpus_each")

    @property
    def placement(self) -> str:
        """The strategy to use unless another is named: in a pool any device will do, so the cheapest."""
        return "first_fit" if self.gpus is not None and self.gpus_each is None else "least_waste"

    def read(self) -> tuple[tuple[Job, ...], Agents]:
        """The jobs, by submission, and the agents to run them on.

        Raises:
            InvalidRequest: something cannot be read, or nothing is left to run.
            ClientFailure: the server cannot be asked.
        """
        jobs, agents = self._read_server() if self.server is not None else (self._read_trace(), ())
        if self.gpus is not None:
            agents = pool(self.gpus) if self.gpus_each is None else self._even_nodes(self.gpus, self.gpus_each)
            jobs = on_gpus_alone(jobs)
        elif self.nodes is not None:
            agents = read_nodes(self.nodes)
        return self._fitting(self._window(jobs), agents), agents

    def _read_trace(self) -> tuple[Job, ...]:
        assert self.trace is not None
        if self.trace.is_dir():
            # Imported here: other traces are read without the store.
            from aliquot.cli.simulation.archived_sessions import read_archive

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
            raise InvalidRequest("no job asks for GPUs", field="gpus")
        last_s = max(job.submit_us // SECOND_US + 1 for job in jobs)
        until_s = last_s if self.until_s is None else self.until_s
        chosen = window(jobs, from_s=self.from_s or 0, until_s=until_s)
        if not chosen:
            raise InvalidRequest(f"no job was submitted between {self.from_s or 0} s and {until_s} s", field="from_s")
        return chosen

    def _fitting(self, jobs: tuple[Job, ...], agents: Agents) -> tuple[Job, ...]:
        if not self.skips_unfitting:
            return numbered(jobs)
        kept, unfitting = fitting(jobs, agents, DEFAULT_OPTIONS)
        if unfitting:
            print(f"left out {len(unfitting)} jobs that do not fit the empty cluster", file=sys.stderr)
        if not kept:
            raise InvalidRequest("no job fits the cluster even when it is empty")
        return numbered(kept)


async def _from_server(url: str, *, token: str) -> tuple[tuple[Job, ...], Agents]:
    async with Client(url, token) as client:
        with bar("sessions", total=None) as tell:
            jobs = await read_history(client, on_progress=tell)
        return jobs, await read_agents(client)


def _token(path: Path | None) -> str:
    path = path or default_data_folder() / "token"
    try:
        token = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{path}: no token can be read there: {error}", field="token_file") from error
    if not token.isprintable() or not token:
        raise InvalidRequest(f"{path} holds no token", field="token_file")
    return token
