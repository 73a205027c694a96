"""How much of a cluster each placement strategy fills, on the arrival orders of the openb trace."""

import dataclasses
import sys
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from statistics import fmean, stdev
from typing import Final

from msgspec.structs import replace
from registry import Key, scenario

# The replay is shared with the tests; only pytest adds their support folder.
sys.path.append(str(Path(__file__).parents[1] / "support"))

from placement_replay import Outcome, mix_of, replay
from placement_traces import ABSENT, Trace, is_present, openb, published

REACH: Final = {
    "least_waste": ">= 95.9",
    "fgd": "= 95.39 +- 1",
    "best_fit": "= 93.08 +- 1",
    "dot_product": "= 90.85 +- 1",
    "pack": "= 92.00 +- 1",
    "random": "= 87.47 +- 1",
    "spread": ">= 0",
    "first_fit": ">= 0",
}
"""By strategy; the baselines against published values."""
CPU_DIVISOR: Final = 8


def _key(strategy: str) -> str:
    return "placement_alloc_pct" if strategy == "least_waste" else f"placement_alloc_pct_{strategy}"


def _fill(strategy: str) -> Callable[[], Awaitable[dict[str, float]]]:
    async def run() -> dict[str, float]:
        if not is_present():
            return _skip()
        return {_key(strategy): fmean(outcome.pct_at_end for outcome in _outcomes(strategy).values())}

    return run


for _strategy, _reach in REACH.items():
    scenario(Key(name=_key(_strategy), what=f"GPU allocation at 130 % arrived, {_strategy}", reach=_reach))(
        _fill(_strategy)
    )


@scenario(Key(name="placement_min_gain", what="least gain of least_waste over fgd on one order, points", reach="> 0"))
async def min_gain() -> dict[str, float]:
    """Per arrival order: both strategies get the same jobs."""
    if not is_present():
        return _skip()
    ours, theirs = _outcomes("least_waste"), _outcomes("fgd")
    return {"placement_min_gain": min(ours[seed].pct_at_end - theirs[seed].pct_at_end for seed in ours)}


@scenario(
    Key(
        name="placement_own_cpu_gain",
        what="least_waste, jobs with an eighth of the CPU: gain of their own CPU per GPU over the default, points",
        reach="> 0",
    )
)
async def own_cpu_gain() -> dict[str, float]:
    """With share sizes and CPU of the original mix, the strategy keeps its default."""
    if not is_present():
        return _skip()
    trace = _trace()
    frugal = dataclasses.replace(
        trace,
        jobs={
            number: dataclasses.replace(job, request=replace(job.request, cpu=job.request.cpu // CPU_DIVISOR))
            for number, job in trace.jobs.items()
        },
    )
    gains = [
        replay(frugal, order, strategy="least_waste").pct_at_end
        - replay(frugal, order, strategy="least_waste", mix=mix_of(trace)).pct_at_end
        for order in trace.arrivals.values()
    ]
    return {"placement_own_cpu_gain": fmean(gains)}


@scenario(Key(name="placements_per_s", what="least_waste on 1,213 nodes with 6,212 GPUs", reach=">= 8000"))
async def speed() -> dict[str, float]:
    """Jobs that do not fit cost time too, and do not count."""
    if not is_present():
        return _skip()
    outcomes = _outcomes("least_waste").values()
    placed, seconds = sum(outcome.placed for outcome in outcomes), sum(outcome.seconds for outcome in outcomes)
    return {"placements_per_s": placed / seconds}


@cache
def _trace() -> Trace:
    return openb()


@cache
def _outcomes(strategy: str) -> dict[int, Outcome]:
    """By seed; printed as a line of a table."""
    trace = _trace()
    found = {seed: replay(trace, order, strategy=strategy, seed=seed) for seed, order in trace.arrivals.items()}
    _print_line(strategy, found)
    return found


def _print_line(strategy: str, found: dict[int, Outcome]) -> None:
    cells = [f"{strategy:12}"]
    for attribute, column in (("pct_at_100", "alloc_pct_at_100"), ("pct_at_end", "alloc_pct_at_130")):
        values = [getattr(outcome, attribute) for outcome in found.values()]
        theirs = published(column).get(strategy)
        spread = stdev(values) if len(values) > 1 else 0.0
        cells.append(
            f"{column.rpartition('_')[2]} %: {fmean(values):6.2f} +- {spread:.2f}, published "
            f"{'-' if theirs is None else format(theirs, '.2f'):>5}"
        )
    print("  " + " | ".join(cells), file=sys.stderr, flush=True)


def _skip() -> dict[str, float]:
    print(f"  skipped: {ABSENT}", file=sys.stderr, flush=True)
    return {}
