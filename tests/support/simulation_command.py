"""scripts/simulate: runs seeds one after another until one breaks a rule."""

import argparse
import sys
import time
from collections.abc import Iterator
from random import SystemRandom
from typing import Final

from simulation_run import BrokenRun, simulate
from simulation_shrinking import course, shrunk

TELL_EVERY: Final = 100
FRESH_MAX: Final = 10**12


def main() -> int:
    """Exit with 1 if a seed failed, after printing it and the command to repeat it."""
    asked = _asked()
    first = SystemRandom().randrange(FRESH_MAX) if asked.fresh else asked.first
    if asked.fresh:
        print(f"seeds from {first}", flush=True)
    failed: list[int] = []
    done = 0
    for seed in _seeds(first, count=asked.seeds, seconds=asked.seconds):
        done += 1
        try:
            outcome = simulate(seed)
        except BrokenRun as error:
            print(error, flush=True)
            failed.append(seed)
            if asked.shrink:
                _shrink(error, seed)
            if not asked.keep_going:
                return 1
        else:
            if asked.seeds == 1:
                print(outcome)
        if done % TELL_EVERY == 0:
            _print_result(done, failed)
    _print_result(done, failed)
    return 1 if failed else 0


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/simulate", description="Runs the service under seeded faults.")
    parser.add_argument("--seeds", type=int, help="how many; 300 unless --for is given")
    parser.add_argument("--from", type=int, default=1, dest="first", help="the first one")
    parser.add_argument("--for", type=float, dest="seconds", help="for so many seconds, however many seeds that are")
    parser.add_argument("--fresh", action="store_true", help="begin with a seed drawn by chance; it is printed")
    parser.add_argument("--shrink", action="store_true", help="look for the fewest faults and requests that fail")
    parser.add_argument("--keep-going", action="store_true", help="report every seed that fails, not only the first")
    asked = parser.parse_args()
    if asked.seeds is None and asked.seconds is None:
        asked.seeds = 300
    return asked


def _seeds(first: int, *, count: int | None, seconds: float | None) -> Iterator[int]:
    end = None if seconds is None else time.monotonic() + seconds
    seed = first
    while (count is None or seed < first + count) and (end is None or time.monotonic() < end):
        yield seed
        seed += 1


def _shrink(error: BrokenRun, seed: int) -> None:
    least = shrunk(error, seed=seed)
    print(f"shrunk from {len(error.schedule.happened)} to {len(least.schedule.happened)} faults and requests:")
    print(course(least))
    print(str(least).partition("\n")[0], flush=True)


def _print_result(done: int, failed: list[int]) -> None:
    print(f"{done} seeds, {len(failed)} failed {failed}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
