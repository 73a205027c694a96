"""The simulation can fail: each planted bug is found within 300 seeds."""

from itertools import chain

import pytest

from simulation_bugs import BUGS
from simulation_run import BrokenRun, simulate
from simulation_shrinking import course, shrunk

SEEDS = 300
TRIED_FIRST = {"epoch_unchecked": 52}
"""Seeds known to find a bug that few seeds find. If the code has changed so that they do not, the others are tried."""
SHRUNK_SEED = 9


@pytest.mark.slow
@pytest.mark.parametrize("name", BUGS)
def test_an_injected_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BUGS[name](monkeypatch)
    assert _first_found(TRIED_FIRST.get(name, 1)) is not None, f"{SEEDS} seeds say nothing of {BUGS[name].__doc__}"


def test_a_broken_run_is_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    BUGS["charged_twice"](monkeypatch)
    with pytest.raises(BrokenRun) as raised:
        simulate(SHRUNK_SEED)
    least = shrunk(raised.value, seed=SHRUNK_SEED, runs_max=40)
    assert least.rule == raised.value.rule
    assert len(least.schedule.happened) <= 10 < 30 < len(raised.value.schedule.happened)
    assert "submits" in course(least)
    with pytest.raises(BrokenRun) as again:
        simulate(SHRUNK_SEED, left_out=least.schedule.left_out)
    assert str(again.value) == str(least)


def _first_found(first: int) -> int | None:
    for seed in chain(range(first, SEEDS + 1), range(1, first)):
        try:
            simulate(seed)
        except BrokenRun as error:
            print(str(error).splitlines()[0])
            # A patch of a name missing in the code would be "found" too.
            if "AttributeError" in str(error):
                raise
            return seed
    return None
