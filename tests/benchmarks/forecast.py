"""Accuracy of start forecasts on public logs, made from past data alone."""

import os
import sys
from asyncio import gather, get_running_loop
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Final

from forecast_logs import COUNTS, LOGS, POLICIES, Told, told, truth
from forecast_page import with_forecasts
from forecast_scores import AT_ONCE, UNKNOWN, Scores, scores, shown
from registry import Key, scenario

from simulation import is_present

TARGETS: Final = (
    ("forecast_cover_80", "told to wait: started inside the band from P10 to P90", "= 0.8 +- 0.04"),
    ("forecast_cover_worst", "the same, in the worst group of at least 200", ">= 0.70"),
    ("forecast_now_true", "told to start now: did", ">= 0.999"),
    ("forecast_factor2", "told to wait: P50 within a factor 2 (+ 5 min)", ">= 0.75"),
    ("forecast_soon_10min", "told to wait for less than 10 min: right within 10 min", ">= 0.80"),
    ("forecast_pinball_vs_ema", "quantile loss / that of a moving average of waits", "<= 0.45"),
    ("forecast_pinball_vs_class", "the same / average by size class, 0 for those that start now", "<= 0.60"),
    ("forecast_pinball_vs_limits", "the same / plan by time limits, where there are limits", "<= 0.55"),
)
BESIDE: Final = (
    (AT_ONCE, "told to start now, of all forecasts", ">= 0"),
    (UNKNOWN, "unknown, of all forecasts", ">= 0"),
)
PAGE: Final = Path(__file__).parents[2] / "server" / "docs" / "concepts" / "forecasts.md"
WORKERS: Final = os.cpu_count() or 1


def _alone(log: str, prefix: str) -> tuple[Key, ...]:
    """The keys of one log under one policy."""
    policy = "EASY" if prefix else "default policy"
    return tuple(
        Key(name=f"{name}_{prefix}{log}", what=f"{log}, {policy}: {what}", reach=reach)
        for name, what, reach in (*TARGETS, *BESIDE)
        if log == "kth" or not name.endswith("_limits")
    )


def worst(name: str, values: Iterable[float]) -> float:
    """The value that is furthest from the target."""
    reach = next(reach for key, _, reach in TARGETS if key == name)
    if reach.startswith("="):
        return max(values, key=lambda value: abs(value - float(reach.split()[1])))
    return min(values) if reach.startswith(">") else max(values)


_known: Final[dict[tuple[str, str], Scores]] = {}


async def _scores(log: str, prefix: str) -> Scores:
    """Measured once; forecasts run in parallel on all cores."""
    if (log, prefix) not in _known:
        with ProcessPoolExecutor() as workers:
            loop = get_running_loop()
            parts = [loop.run_in_executor(workers, _told, log, prefix, part) for part in range(WORKERS)]
            made = sorted(chain.from_iterable(await gather(*parts)), key=lambda one: one.forecast.made_us)
        _known[log, prefix] = scores(shown(made))
        for group in _known[log, prefix].groups:
            sentence = f"inside {group.inside:.3f} ({group.inside_low:.3f} to {group.inside_high:.3f})"
            print(f"  {log:6} {prefix or 'default_'} {group.group:28} n {group.n:5} {sentence}", file=sys.stderr)
    return _known[log, prefix]


def _told(log: str, prefix: str, part: int) -> list[Told]:
    policy = POLICIES[prefix]
    return told(truth(log, policy, count=COUNTS[log]), policy, part=part, parts=WORKERS)


def _scenario_of(log: str, prefix: str) -> Callable[[], Awaitable[dict[str, float]]]:
    @scenario(*_alone(log, prefix))
    async def run() -> dict[str, float]:
        if not is_present():
            return {}
        found = await _scores(log, prefix)
        return {f"{name}_{prefix}{log}": value for name, value in found.figures.items()}

    return run


for _log in LOGS:
    for _prefix in POLICIES:
        _scenario_of(_log, _prefix)


@scenario(*(Key(name=name, what=f"worst log and policy: {what}", reach=reach) for name, what, reach in TARGETS))
async def every() -> dict[str, float]:
    """The worst over logs and policies."""
    if not is_present():
        return {}
    found = {(log, prefix): await _scores(log, prefix) for log in LOGS for prefix in POLICIES}
    return {
        name: worst(name, [one.figures[name] for one in found.values() if name in one.figures])
        for name, _, _ in TARGETS
    }


def keep_page() -> None:
    """Write the page on forecasts, if all logs were measured in this run."""
    found = {(log, prefix): _known[log, prefix] for log in LOGS for prefix in POLICIES if (log, prefix) in _known}
    if len(found) == len(LOGS) * len(POLICIES):
        PAGE.write_text(with_forecasts(PAGE, found), encoding="utf-8")
