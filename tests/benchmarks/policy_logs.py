"""Synthetic logs of jobs, each from a seed: loads, wide gangs, missing limits, a heavy user, bursts, day and night."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from aliquot.core.simulation.trace import Job, gpu_request, numbered
from aliquot_schema.ids import ProjectId, SessionId, UserId
from aliquot_schema.resources.slots import MILLI

DAY_S: Final = 86_400
QUARTER_S: Final = 900
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyLog:
    """The parameters of a log."""

    seed: int
    load: float
    gpus: int = 128
    jobs: int = 4000
    users: int = 40
    wide: float = 0.05
    """Part of the work in gangs of a quarter of the cluster and more."""
    spread: float = 1.0
    """Standard deviation of the logarithm of run times within a recipe; 2 = recipes predict little."""
    limit_factor: float = 4.0
    """Limits are up to twice this multiple of a recipe's typical run time."""
    has_limits: bool = True
    heavy: float = 0.0
    """Part of the jobs that one user submits; 0 = as the others."""
    burst: float = 1.0
    """Mean number of jobs per burst."""
    diurnal: float = 0.5
    """How much busier days are than nights, 0 to 1."""


LOGS: Final = {
    "mild, load 0.7": PolicyLog(seed=1, load=0.7),
    "load 0.9": PolicyLog(seed=2, load=0.9),
    "load 1.05": PolicyLog(seed=3, load=1.05),
    "wide gangs": PolicyLog(seed=4, load=0.8, wide=0.45, has_limits=False),
    "wide gangs, limits": PolicyLog(seed=5, load=0.8, wide=0.45),
    "estimates wrong by 10": PolicyLog(seed=6, load=0.9, spread=2.0, limit_factor=20, has_limits=False),
    "heavy user": PolicyLog(seed=7, load=0.95, heavy=0.6),
    "bursts": PolicyLog(seed=8, load=0.9, burst=40, has_limits=False),
    "day and night": PolicyLog(seed=9, load=0.85, diurnal=0.95, burst=5),
    "light, load 0.5": PolicyLog(seed=10, load=0.5, wide=0.3),
    "bursts, wide, wrong": PolicyLog(seed=11, load=0.9, burst=20, wide=0.3, spread=1.8, has_limits=False),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recipe:
    """A kind of job that one user submits repeatedly."""

    typical_s: float
    gpus: int
    limit_s: float


def drawn(log: PolicyLog) -> tuple[Job, ...]:
    """The jobs of a log, reproducible per log."""
    random = np.random.default_rng(log.seed)
    recipes = [[_recipe(log, random) for _ in range(random.integers(1, 5))] for _ in range(log.users)]
    gangs = [_gang(log, random) for _ in range(4)]
    parts = 1 / np.arange(1, log.users + 1) ** 0.9
    parts /= parts.sum()
    if log.heavy:
        parts[1:] *= (1 - log.heavy) / parts[1:].sum()
        parts[0] = log.heavy
    users: list[int] = []
    bursts: list[int] = []
    made: list[tuple[float, _Recipe]] = []
    while len(made) < log.jobs:
        user = int(random.choice(log.users, p=parts))
        recipe = recipes[user][random.integers(len(recipes[user]))]
        burst = bursts[-1] + 1 if bursts else 0
        for _ in range(min(int(random.geometric(1 / log.burst)), log.jobs - len(made))):
            made.append((_ran_s(recipe, log, random), recipe))
            users.append(user)
            bursts.append(burst)
    _widen(made, gangs, log, random)
    submitted = _submitted_s(np.array(bursts), sum(ran * one.gpus for ran, one in made), log, random)
    return numbered(
        Job(
            id=SessionId(""),
            user=UserId(f"user{user:02}"),
            project=ProjectId("all"),
            submit_us=round(float(submit_s) * 1_000_000),
            duration_ms=max(round(ran_s), 1) * 1000,
            request=gpu_request(recipe.gpus * MILLI),
            limit_ms=round(max(recipe.limit_s, ran_s + 1)) * 1000 if log.has_limits else None,
        )
        for user, (ran_s, recipe), submit_s in zip(users, made, submitted, strict=True)
    )


def _recipe(log: PolicyLog, random: np.random.Generator) -> _Recipe:
    gpus = int(2 ** random.integers(0, max(1, int(np.log2(log.gpus / 8))))) if random.random() < 0.5 else 1
    return _with_limit(float(np.exp(random.normal(7.6, 1.5))), gpus, log, random)


def _gang(log: PolicyLog, random: np.random.Generator) -> _Recipe:
    part = random.choice([0.25, 0.5, 0.75, 1.0], p=[0.5, 0.3, 0.15, 0.05])
    return _with_limit(float(np.exp(random.normal(7.8, 1.2))), max(1, int(log.gpus * part)), log, random)


def _with_limit(typical_s: float, gpus: int, log: PolicyLog, random: np.random.Generator) -> _Recipe:
    limit_s = np.ceil(typical_s * random.uniform(1, 2 * log.limit_factor) / QUARTER_S) * QUARTER_S
    return _Recipe(typical_s=typical_s, gpus=gpus, limit_s=float(limit_s))


def _ran_s(recipe: _Recipe, log: PolicyLog, random: np.random.Generator) -> float:
    """A run time; every tenth job ends early."""
    dies = float(random.uniform(0, 0.05)) if random.random() < 0.1 else 1.0
    return float(np.clip(recipe.typical_s * np.exp(random.normal(0, log.spread)) * dies, 5, 2 * DAY_S))


def _widen(
    made: list[tuple[float, _Recipe]], gangs: list[_Recipe], log: PolicyLog, random: np.random.Generator
) -> None:
    """Turn jobs into gangs until gangs have their share of the work."""
    work, wide = sum(ran * one.gpus for ran, one in made), 0.0
    for place in random.permutation(len(made)).tolist():
        if wide >= log.wide * (work + wide):
            return
        gang = gangs[random.integers(4)]
        work -= made[place][0] * made[place][1].gpus
        ran_s = min(_ran_s(gang, log, random), DAY_S)
        made[place] = ran_s, gang
        wide += ran_s * gang.gpus


def _submitted_s(bursts: npt.NDArray[np.int64], work: float, log: PolicyLog, random: np.random.Generator) -> Floats:
    """Submission times: bursts at random times, more of them by day, over a span that gives the load."""
    span = work / log.gpus / log.load
    times = np.cumsum(random.gamma(0.5, 1, bursts[-1] + 1))
    times *= span / times[-1]
    ticks = np.linspace(0, span, 20_001)
    busy = np.cumsum(1 - log.diurnal * np.cos(2 * np.pi * ticks / DAY_S))
    times = np.interp(times, busy / busy[-1] * span, ticks)
    found: Floats = times[bursts] + random.uniform(0, 60, len(bursts))
    return found
