"""Run time prediction: the median of the last runs of the most similar kind of session.

Only ended runs are used, compared by user, program, number of GPUs and time limit. Measured on public logs, the median
of at most 20 runs beats the mean, and gradient boosting is no better.
"""

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from aliquot_schema.ids import UserId
from aliquot_schema.resources.slots import MILLI

RUNS_MAX: Final = 20
"""Runs kept per key."""
KEYS_MAX: Final = 100_000
"""Keys kept; the key without a run for the longest time is dropped first."""
Key = tuple[str, UserId | None, str | None, int | None, int | None]
NAME_CHARS_MAX: Final = 64
SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh"})
INTERPRETERS: Final = re.compile(r"(python|pypy|perl|ruby|node|julia|Rscript|php)[0-9.]*")
PREFIXES: Final = frozenset({"env", "exec", "nice", "nohup", "time", "uv", "run"})
"""Words before a command that are not the command."""
ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z_0-9]*=.*", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Properties of a session that are known before it runs."""

    user: UserId
    program: str | None
    """Program name, see `program_of`; None = unknown."""
    milli: int
    """Accelerators of all kernels together."""
    limit_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Expected run time of a session with its basis."""

    estimate_ms: int
    runs: int
    likeness: str
    """What these runs have in common with the session, as text."""
    is_limited: bool
    """Whether the session's time limit is below the median."""

    def sentence(self) -> str:
        """Text like `median of your last 14 runs of train.py on 4 GPUs: 2 h 10 min`."""
        of = f"your last {self.runs} runs" if self.runs > 1 else "your last run"
        if not self.likeness.startswith("your"):
            of = f"the last {self.runs} runs" if self.runs > 1 else "the last run"
        alike = self.likeness.removeprefix("your").strip()
        time = duration_text(self.estimate_ms)
        how = f"median of {of}" if self.runs > 1 else of
        return f"{how}{' ' + alike if alike else ''}: {time}{', the time limit' if self.is_limited else ''}"


class Predictor:
    """Learns from every ended run, in the order of ends."""

    def __init__(self) -> None:
        self._runs: dict[Key, deque[int]] = {}

    def learn(self, workload: Workload, *, duration_ms: int) -> None:
        """Add an ended run."""
        for key, _ in _likenesses(workload):
            runs = self._runs.pop(key, None)
            self._runs[key] = runs = deque(maxlen=RUNS_MAX) if runs is None else runs
            runs.append(duration_ms)
        while len(self._runs) > KEYS_MAX:
            del self._runs[next(iter(self._runs))]

    def predict(self, workload: Workload) -> Prediction | None:
        """Prediction from the most similar runs; None without any run."""
        for key, likeness in _likenesses(workload):
            runs = self._runs.get(key)
            if runs:
                median_ms = _median(runs)
                limit_ms = median_ms if workload.limit_ms is None else workload.limit_ms
                return Prediction(
                    estimate_ms=min(median_ms, limit_ms),
                    runs=len(runs),
                    likeness=likeness,
                    is_limited=limit_ms < median_ms,
                )
        return None


def duration_text(duration_ms: int) -> str:
    """The two largest units: `3 d 4 h`, `2 h 10 min`, `5 min`, `12 s`."""
    seconds = duration_ms // 1000
    units = (("d", seconds // 86_400), ("h", seconds // 3600 % 24), ("min", seconds // 60 % 60), ("s", seconds % 60))
    first = next((index for index, (_, amount) in enumerate(units) if amount), 3)
    shown = [f"{amount} {unit}" for unit, amount in units[first : first + 2] if amount]
    return " ".join(shown) if shown else "less than a second"


def _likenesses(workload: Workload) -> Iterator[tuple[Key, str]]:
    """Keys of similar runs with their description, the most similar first."""
    user, program, milli, limit_ms = workload.user, workload.program, workload.milli, workload.limit_ms
    size = f"on {_gpus(milli)}"
    if program is not None:
        yield ("program", user, program, milli, None), f"your of {program} {size}"
    if limit_ms is not None:
        yield ("limit", user, None, milli, limit_ms), f"your {size} with a limit of {duration_text(limit_ms)}"
    yield ("size", user, None, milli, None), f"your {size}"
    yield ("user", user, None, None, None), "your"
    yield ("all of size", None, None, milli, None), f"of all users {size}"
    yield ("all", None, None, None, None), "of all users"


def _gpus(milli: int) -> str:
    if not milli:
        return "no GPU"
    whole, rest = divmod(milli, MILLI)
    count = str(whole) if not rest else f"{milli / MILLI:g}"
    return f"{count} GPU" if milli <= MILLI else f"{count} GPUs"


def _median(runs: deque[int]) -> int:
    ordered = sorted(runs)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) // 2


def program_of(argv: Sequence[str]) -> str | None:
    """The base name of a command's program, of an interpreter's script or module, or of the first command of `sh -c`.

    None if there is none.
    """
    words = list(argv)
    while words and (words[0] in PREFIXES or ASSIGNMENT.fullmatch(words[0])):
        del words[0]
    if not words:
        return None
    name = _name(words[0])
    if name in SHELLS:
        return _of_shell(words) or name
    if INTERPRETERS.fullmatch(name):
        return _of_interpreter(words) or name
    return name or None


def _of_shell(words: Sequence[str]) -> str | None:
    """The program that a shell runs. Its options may be joined: `-lc`."""
    for place, word in enumerate(words[1:], start=1):
        if not word.startswith("-"):
            return _name(word)
        if not word.startswith("--") and word.endswith("c"):
            return program_of(words[place + 1].split()) if place + 1 < len(words) else None
    return None


def _of_interpreter(words: Sequence[str]) -> str | None:
    for place, word in enumerate(words[1:], start=1):
        if word == "-m" and place + 1 < len(words):
            return words[place + 1][:NAME_CHARS_MAX]
        if word in ("-c", "-e", "-m", "-"):
            return None
        if not word.startswith("-"):
            return _name(word)
    return None


def _name(word: str) -> str:
    return word.strip("'\";&|()").rstrip("/").rpartition("/")[2][:NAME_CHARS_MAX]
