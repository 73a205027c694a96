"""The linearizability checker rejects invalid histories only."""

import itertools
import math
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linearizability import Leases, Operation, Record, leased, linearized, submitted, versioned

EMPTY: Record = (0, None)


def operation(began: float, ended: float, *asked: object, answer: tuple[object, ...] | None) -> Operation:
    return Operation(began=began, ended=ended, asked=asked, answer=answer)  # type: ignore[arg-type]  # all hashable


def change(
    began: float, ended: float, value: str, answer: tuple[object, ...] | None, *, on: int | None = None
) -> Operation:
    return operation(began, ended, "set", value, on, answer=answer)


@pytest.mark.parametrize(
    ("history", "is_right"),
    [
        ([change(0, 1, "a", ("ok", 1)), change(2, 3, "b", ("ok", 2), on=1)], True),
        ([change(0, 9, "a", ("ok", 2)), change(1, 2, "b", ("ok", 1))], True),
        # An acknowledged change is lost.
        ([change(0, 1, "a", ("ok", 1)), change(2, 3, "b", ("ok", 1))], False),
        # Two clients replaced the same version.
        ([change(0, 5, "a", ("ok", 1), on=0), change(1, 4, "b", ("ok", 1), on=0)], False),
        # A later change came first.
        ([change(0, 1, "a", ("ok", 2)), change(2, 3, "b", ("ok", 1))], False),
        ([change(0, 1, "a", ("conflict", 1), on=0)], False),
        # Unanswered: it took effect late, or never.
        ([change(0, math.inf, "a", None), change(2, 3, "b", ("ok", 2))], True),
        ([change(0, math.inf, "a", None), change(2, 3, "b", ("ok", 1)), change(4, 5, "c", ("ok", 3))], True),
        ([change(0, math.inf, "a", None), change(2, 3, "b", ("ok", 1))], True),
        ([change(4, math.inf, "a", None), change(2, 3, "b", ("ok", 2))], False),
    ],
)
def test_histories_of_a_record_are_judged_correctly(history: list[Operation], is_right: bool) -> None:
    assert (linearized(history, EMPTY, versioned) is not None) is is_right


@pytest.mark.parametrize(
    ("answers", "is_right"),
    [
        ([("ok", "x", True), ("ok", "x", False)], True),
        ([("ok", "x", True), ("ok", "y", True)], False),
        ([("ok", "x", True), ("ok", "y", False)], False),
        ([None, ("ok", "x", False), ("ok", "x", False)], True),
        ([("ok", "x", False), ("ok", "x", True)], False),
    ],
)
def test_histories_of_an_idempotency_key_are_judged_correctly(
    answers: Sequence[tuple[object, ...] | None], is_right: bool
) -> None:
    history = [
        operation(n, math.inf if one is None else n + 0.5, "submit", answer=one) for n, one in enumerate(answers)
    ]
    assert (linearized(history, None, submitted) is not None) is is_right


A, B, C, D = frozenset({"0", "1", "2"}), frozenset({"3", "4", "5"}), frozenset({"2", "6", "7"}), frozenset({"6", "7"})


@pytest.mark.parametrize(
    ("answers", "is_right"),
    [
        ([("allocate", "x", ("ok", A, False)), ("allocate", "x", ("ok", A, True)), ("release", "x", ("ok",))], True),
        (
            [("allocate", "x", ("ok", A, False)), ("allocate", "y", ("ok", B, False)), ("allocate", "z", ("full",))],
            True,
        ),
        # A GPU is held twice.
        ([("allocate", "x", ("ok", A, False)), ("allocate", "y", ("ok", C, False))], False),
        # More are held than exist.
        (
            [("allocate", name, ("ok", gpus, False)) for name, gpus in (("x", A), ("y", B), ("z", frozenset("67")))],
            False,
        ),
        # A grant was lost or moved.
        ([("allocate", "x", ("ok", A, False)), ("allocate", "x", ("ok", B, False))], False),
        ([("allocate", "x", ("ok", A, False)), ("allocate", "x", ("ok", B, True))], False),
        ([("allocate", "x", ("ok", A, False)), ("release", "x", ("unknown",))], False),
        ([("allocate", "x", ("ok", A, False)), ("release", "x", ("ok",)), ("allocate", "x", ("ok", A, True))], False),
        ([("allocate", "x", ("ok", A, False)), ("allocate", "z", ("full",))], False),
        # Unanswered: it was done, or not.
        ([("allocate", "x", None), ("allocate", "y", ("ok", B, False)), ("allocate", "z", ("full",))], True),
        ([("allocate", "x", ("ok", A, False)), ("release", "x", None), ("allocate", "x", ("ok", B, False))], True),
        ([("allocate", "x", None), ("release", "x", ("unknown",))], True),
    ],
)
def test_histories_of_leases_are_judged_correctly(
    answers: Sequence[tuple[str, str, tuple[object, ...] | None]], is_right: bool
) -> None:
    history = [
        operation(n, math.inf if answer is None else n + 0.5, kind, job, answer=answer)
        for n, (kind, job, answer) in enumerate(answers)
    ]
    nothing: Leases = frozenset()
    assert (linearized(history, nothing, leased) is not None) is is_right


def lived(seed: int, *, count: int) -> list[Operation]:
    """What clients see of a correct record: each operation takes effect at one moment."""
    draw = random.Random(seed)
    state, history = EMPTY, list[Operation]()
    for moment in range(count):
        version, _ = state
        value, expected = draw.choice("abc"), draw.choice((None, None, version, max(0, version - 1)))
        began, ended = moment - 3 * draw.random(), moment + 3 * draw.random()
        if expected not in (None, version):
            answer: tuple[object, ...] = ("conflict", version)
        else:
            state = (version + 1, value)
            answer = ("ok", version + 1)
        is_heard = draw.random() < 0.8
        history.append(change(began, ended if is_heard else math.inf, value, answer if is_heard else None, on=expected))
    return history


@given(st.integers(0, 10**6))
def test_correct_histories_are_never_rejected(seed: int) -> None:
    assert linearized(lived(seed, count=25), EMPTY, versioned) is not None


@given(st.integers(0, 10**6), st.randoms(use_true_random=False))
def test_the_search_agrees_with_trying_every_order(seed: int, draw: random.Random) -> None:
    history = [
        change(one.began, one.ended, str(one.asked[1]), draw.choice([one.answer, ("ok", draw.randint(0, 3))]), on=None)
        for one in lived(seed, count=5)
        if one.answer is not None
    ]
    assert (linearized(history, EMPTY, versioned) is not None) == any(map(explains, itertools.permutations(history)))


def explains(order: tuple[Operation, ...]) -> bool:
    """Whether an order respects time and answers."""
    if any(later.ended < one.began for number, one in enumerate(order) for later in order[number + 1 :]):
        return False
    state = EMPTY
    for one in order:
        found = list(versioned(state, one))
        if not found:
            return False
        (state,) = found
    return True
