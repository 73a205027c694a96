"""A checker of concurrent histories: is there an order of the operations that explains every answer?

The operations of a history overlap. It is linearizable if each can be given one moment between its beginning and its
end so that, done one after another in that order, the model gives the answers that were given. An operation without
an answer may have happened at any time after its beginning, or never. The search is that of Wing and Gong with Lowe's
memory of what was tried (J. Wing, C. Gong: Testing and Verifying Concurrent Objects, 1993; G. Lowe: Testing for
Linearizability, 2017).
"""

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

NO_ANSWER: Final = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What one client asked, and what it was answered. Times are of one clock, in seconds."""

    began: float
    ended: float = math.inf
    """When the answer had arrived; infinite without one."""
    asked: tuple[Hashable, ...]
    answer: tuple[Hashable, ...] | None = NO_ANSWER


S = TypeVar("S", bound=Hashable)
Model = Callable[[S, Operation], Iterable[S]]
"""The states after an operation in a state; none if its answer is impossible there."""


def linearized(history: Sequence[Operation], start: S, model: Model[S]) -> list[Operation] | None:
    """An order of the operations that explains all answers; None if there is none.

    Operations without an answer that are not needed are left out of it.
    """
    operations = sorted(history, key=lambda operation: operation.began)
    answered = sum(1 << number for number, one in enumerate(operations) if one.answer is not NO_ANSWER)
    tried: set[tuple[int, S]] = set()
    stack: list[tuple[int, S, tuple[int, ...]]] = [(0, start, ())]
    while stack:
        done, state, order = stack.pop()
        if done & answered == answered:
            return [operations[number] for number in order]
        for number in _next(operations, done):
            for after in model(state, operations[number]):
                reached = done | 1 << number, after
                if reached not in tried:
                    tried.add(reached)
                    stack.append((*reached, (*order, number)))
    return None


def _next(operations: Sequence[Operation], done: int) -> list[int]:
    """The operations that may come next: none that is open ended before they began. The likeliest one is the last."""
    possible = list[int]()
    first_end = math.inf
    for number, operation in enumerate(operations):
        if operation.began > first_end:
            break
        if not done >> number & 1:
            possible.append(number)
            first_end = min(first_end, operation.ended)
    possible = [number for number in possible if operations[number].began <= first_end]
    return sorted(possible, key=lambda number: -operations[number].ended)


Record = tuple[int, Hashable]
"""Version and value; version 0 = there is none yet."""


def versioned(state: Record, operation: Operation) -> Iterable[Record]:
    """A record that is changed by `("set", value, expected version or None)`.

    Answers are `("ok", version)` and `("conflict", current version)`. Every change counts the version up by one, and
    setting the value that is there may leave it.
    """
    version, value = state
    _, wanted, expected = operation.asked
    fits = expected is None or expected == version
    match operation.answer:
        case ("conflict", actual):
            return [state] if not fits and actual == version else []
        case ("ok", reached) if fits and (reached == version + 1 or (wanted, reached) == (value, version)):
            return [(version + 1 if reached != version else version, wanted)]
        case None if fits:
            return [(version + 1, wanted)]
    return []


ANY: Final = "?"
"""A session was made, and no client knows its id."""


def submitted(state: Hashable, operation: Operation) -> Iterable[Hashable]:
    """What an idempotency key stands for: None, or the id of the session that it made.

    Answers are `("ok", id, whether it was created)`.
    """
    match operation.answer:
        case ("ok", session_id, True):
            return [session_id] if state is None else []
        case ("ok", session_id, False):
            return [session_id] if state in (session_id, ANY) else []
        case None if state is None:
            return [ANY]
    return []


LEASES_MAX: Final = 2
"""Jobs of three GPUs that fit on an agent of eight."""
Leases = frozenset[tuple[Hashable, Hashable]]
"""Jobs with the GPUs that they hold; None = no client knows which."""


def leased(state: Leases, operation: Operation) -> Iterable[Leases]:
    """GPUs of one agent that are held by `("allocate", job)` and given back by `("release", job)`.

    Answers of the first are `("ok", set of GPUs, whether the job held them before)` and `("full",)`, of the other one
    `("ok",)` and `("unknown",)`.
    """
    held = dict(state)
    kind, job = operation.asked
    fits = job not in held and len(held) < LEASES_MAX
    match kind, operation.answer:
        case "allocate", ("ok", gpus, True) if held.get(job, ()) in (gpus, None):
            return [frozenset({**held, job: gpus}.items())]
        case "allocate", ("ok", frozenset() as gpus, False) if fits:
            others = [other for other in held.values() if isinstance(other, frozenset)]
            return [] if any(gpus & other for other in others) else [frozenset({**held, job: gpus}.items())]
        case "allocate", ("full",):
            return [state] if job not in held and not fits else []
        case "allocate", None if fits:
            return [frozenset({**held, job: None}.items())]
        case "release", ("ok",) | None if job in held:
            return [frozenset((name, gpus) for name, gpus in state if name != job)]
        case "release", ("unknown",) if job not in held:
            return [state]
    return []
