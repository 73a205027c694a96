"""The openb trace and its arrival orders, read from local files; not part of the project.

Source: Alibaba cluster-trace-gpu-v2023; Weng et al., Beware of Fragmentation, USENIX ATC 2023.
"""

import csv
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aliquot.core.placement.cluster_arrays import NodeRow
from aliquot.core.placement.strategy import RequestClass

FOLDER: Final = Path(os.environ.get("ALIQUOT_TRACES") or Path(__file__).parents[3] / "shared" / "traces")
ABSENT: Final = f"no openb trace in {FOLDER}; set ALIQUOT_TRACES to the folder that holds openb/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job of a trace."""

    request: RequestClass
    models: frozenset[str]
    """Accelerator models that it accepts; empty = any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A cluster, and jobs that arrive one by one."""

    nodes: Sequence[NodeRow]
    model_of: Mapping[str, str]
    """Accelerator model of each node, by node name."""
    jobs: Mapping[int, Job]
    arrivals: Mapping[int, Sequence[int]]
    """Job numbers in order of arrival, by seed."""

    @property
    def capacity_milli(self) -> int:
        """Milli of all accelerators."""
        return sum(sum(node.devices) for node in self.nodes)


def is_present() -> bool:
    """Whether the trace can be read."""
    return (FOLDER / "openb" / "arrivals_default.parquet").is_file()


def openb() -> Trace:
    """1,213 nodes with 6,212 GPUs, and ten orders of arrival."""
    nodes = _rows("nodes.csv")
    return Trace(
        nodes=[
            NodeRow(
                name=node["node"],
                cpu=int(node["cpu_milli"]),
                mem=int(node["memory_mib"]),
                devices=(1000,) * int(node["gpus"]),
            )
            for node in nodes
        ],
        model_of={node["node"]: node["gpu_model"] for node in nodes},
        jobs={int(job["job"]): _job(job) for job in _rows("jobs_default.csv")},
        arrivals=_arrivals(),
    )


def published(column: str) -> dict[str, float]:
    """Published results by our names of the strategies; empty for other data."""
    names = {
        "01-Random": "random",
        "02-DotProd": "dot_product",
        "04-GpuPacking": "pack",
        "05-BestFit": "best_fit",
        "06-FGD": "fgd",
    }
    return {
        names[row["policy"]]: float(row[column]) for row in _rows("published_default.csv") if row["policy"] in names
    }


def _rows(name: str) -> list[dict[str, str]]:
    with (FOLDER / "openb" / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _job(row: Mapping[str, str]) -> Job:
    devices = int(row["gpus"])
    return Job(
        request=RequestClass(
            cpu=int(row["cpu_milli"]),
            mem=int(row["memory_mib"]),
            devices=devices,
            milli=int(row["gpu_milli_each"] or 0) if devices else 0,
        ),
        models=frozenset(re.findall(r"\w+", row["gpu_models"] or "")),
    )


def _arrivals() -> dict[int, list[int]]:
    from pyarrow import parquet  # not needed without a trace

    table = parquet.read_table(FOLDER / "openb" / "arrivals_default.parquet").to_pydict()
    orders: dict[int, list[tuple[int, int]]] = {}
    for seed, position, job in zip(table["seed"], table["position"], table["job"], strict=True):
        orders.setdefault(seed, []).append((position, job))
    return {seed: [job for _, job in sorted(order)] for seed, order in sorted(orders.items())}
