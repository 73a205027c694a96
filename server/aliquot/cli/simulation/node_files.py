"""Node files: CSV or Parquet, one row a node: node, gpus; cpu_milli, memory_mib, gpu_model, gpu_memory_mib."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aliquot.cli.trace_files import read_rows
from aliquot.core.simulation.cluster import Machine, machines
from aliquot.core.snapshot import AgentRow
from aliquot_schema.errors import InvalidRequest


def read_nodes(path: Path) -> tuple[AgentRow, ...]:
    """The nodes of a cluster, each with one agent.

    Raises:
        InvalidRequest: no such file; the message says what is wrong and where.
    """
    found: dict[str, Machine] = {}
    for number, row in enumerate(read_rows(path), start=1):
        try:
            machine = _machine(row)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InvalidRequest(f"{path}, row {number}: {type(error).__name__}: {error}") from error
        if machine.name in found:
            raise InvalidRequest(f"{path}, row {number}: a second node {machine.name}")
        found[machine.name] = machine
    if not any(machine.gpus or machine.cores for machine in found.values()):
        raise InvalidRequest(f"{path} has no node with GPUs or cores")
    return machines(found.values())


def _machine(row: Mapping[str, Any]) -> Machine:
    return Machine(
        name=str(row["node"]),
        cores=_whole(row, "cpu_milli") // 1000,
        mem_bytes=_whole(row, "memory_mib") * 2**20,
        gpus=_whole(row, "gpus"),
        model=str(row.get("gpu_model") or ""),
        gpu_memory_bytes=_whole(row, "gpu_memory_mib") * 2**20,
    )


def _whole(row: Mapping[str, Any], column: str) -> int:
    value = int(float(row.get(column) or 0))
    if value < 0:
        raise ValueError(f"{column}: {value} is negative")
    return value
