"""Example workload: two weeks of fifteen users on sixteen GPUs, generated from a seed for the policy plots."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from aliquot.core.model.snapshot import AgentRow
from aliquot.core.simulation.cluster import nodes
from aliquot.core.simulation.trace import Job, gpu_request, numbered
from aliquot_schema.ids import ProjectId, SessionId, UserId

SEED: Final = 8
DAYS: Final = 14
JOBS: Final = 310
USERS: Final = 15
PROJECTS: Final = ("vision", "speech", "robots")
KINDS: Final = ((0.45, 500, 0.4), (0.35, 1_000, 4.0), (0.15, 4_000, 9.0), (0.05, 8_000, 14.0))
"""Probability, GPUs in thousandths, and median run time in hours of each kind of job."""
DAY_US: Final = 86_400_000_000


def cluster() -> tuple[AgentRow, ...]:
    """Two nodes with eight GPUs each."""
    return nodes(2, gpus_each=8)


def fortnight() -> tuple[Job, ...]:
    """The jobs, the same in every build."""
    return numbered(_jobs(np.random.default_rng(SEED)))


def _jobs(rng: np.random.Generator) -> Iterator[Job]:
    """A few users submit most jobs, mostly in the afternoon and fewer on weekends; run times are log-normal."""
    frequency = 1 / np.arange(1, USERS + 1)
    days = np.repeat(np.arange(DAYS), np.where(np.arange(DAYS) % 7 < 5, 6, 1))
    for _ in range(JOBS):
        user = int(rng.choice(USERS, p=frequency / frequency.sum()))
        _, milli, hours = KINDS[int(rng.choice(len(KINDS), p=[kind[0] for kind in KINDS]))]
        run_ms = int(min(hours * rng.lognormal(0, 1.1), 72) * 3_600_000) + 1_000
        at_us = int((rng.choice(days) + np.clip(rng.normal(0.6, 0.12), 0, 0.999)) * DAY_US)
        yield Job(
            id=SessionId(""),
            user=UserId(f"user{user + 1}"),
            project=ProjectId(PROJECTS[user % len(PROJECTS)]),
            submit_us=at_us,
            duration_ms=run_ms,
            request=gpu_request(milli),
            limit_ms=int(run_ms * rng.choice([1.2, 2, 5])) + 600_000,
        )
