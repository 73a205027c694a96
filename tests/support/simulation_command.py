"""scripts/simulate: many seeds, one after another, until one breaks a rule."""

import argparse
import sys

from simulation_run import BrokenRun, simulate

TELL_EVERY = 100


def main() -> int:
    """Exit with 1 when a seed failed; its number and the command that repeats it are printed."""
    parser = argparse.ArgumentParser(prog="scripts/simulate", description="Runs the service under seeded faults.")
    parser.add_argument("--seeds", type=int, default=300, help="how many")
    parser.add_argument("--from", type=int, default=1, dest="first", help="the first one")
    parser.add_argument("--keep-going", action="store_true", help="tell of every seed that fails, not of the first")
    asked = parser.parse_args()
    failed: list[int] = []
    for seed in range(asked.first, asked.first + asked.seeds):
        try:
            outcome = simulate(seed)
        except BrokenRun as error:
            print(error, flush=True)
            failed.append(seed)
            if not asked.keep_going:
                return 1
        else:
            if asked.seeds == 1:
                print(outcome)
        done = seed - asked.first + 1
        if done % TELL_EVERY == 0 or done == asked.seeds:
            print(f"{done} of {asked.seeds} seeds, {len(failed)} failed {failed}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
