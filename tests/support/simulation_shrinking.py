"""Shrinks a failing run: leaves out faults and requests while the same rule is still broken."""

from collections.abc import Callable, Sequence

from simulation_run import BrokenRun, simulate

Try = Callable[[frozenset[str]], BrokenRun | None]


def shrunk(broken: BrokenRun, *, seed: int, runs_max: int = 300) -> BrokenRun:
    """Shrink to a minimal set of faults and requests that breaks the same rule.

    The run changes from the left-out event on, so a result counts as smaller only if fewer
    events happen until the rule is broken.

    Args:
        runs_max: the best so far is returned after this many runs.
    """
    best = broken

    def fails(left_out: frozenset[str]) -> BrokenRun | None:
        try:
            simulate(seed, left_out=left_out)
        except BrokenRun as error:
            return error if error.rule == broken.rule else None
        return None

    runs = 0
    size = max(len(best.schedule.happened) // 2, 1)
    while runs < runs_max:
        smaller, tried = _without_some(best, size, fails, runs_max=runs_max - runs)
        runs += tried
        if smaller is best and size == 1:
            break
        size = max(size // 2, 1)
        best = smaller
    return best


def _without_some(best: BrokenRun, size: int, fails: Try, *, runs_max: int) -> tuple[BrokenRun, int]:
    """Leave out groups of `size` in turn; returns the best run, and the number of tries."""
    names = list(best.schedule.happened)
    tried = 0
    for group in _groups(names, size):
        if tried == runs_max:
            break
        if best.schedule.happened.keys() & group:
            tried += 1
            found = fails(best.schedule.left_out | group)
            if found is not None and len(found.schedule.happened) < len(best.schedule.happened):
                best = found
    return best, tried


def _groups(names: Sequence[str], size: int) -> list[frozenset[str]]:
    """The last events first: they matter least."""
    return [frozenset(names[max(end - size, 0) : end]) for end in range(len(names), 0, -size)]


def course(broken: BrokenRun) -> str:
    """The events of a run, a line each."""
    return "\n".join(broken.schedule.happened.values())
