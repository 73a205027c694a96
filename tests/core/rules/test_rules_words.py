"""What people read: reasons in one sentence each, and how long a session is expected to run, and why."""

from dataclasses import replace

import pytest

from aliquot.core import predict
from aliquot.core.explain import explain
from aliquot.core.predict import KEYS_MAX, Predictor, Workload, duration_text
from aliquot_schema.ids import AgentId, DeviceId, QuotaId, SessionId, UserId
from aliquot_schema.reasons import Evidence, Reason, Verdict

A, B, C, D = (SessionId(name) for name in "abcd")
WORDS = [
    (Reason.STOPPED, Evidence(), "the orchestrator is stopped; it starts when an operator has started that again"),
    (Reason.CLUSTER_UNAVAILABLE, Evidence(), "no agent can be asked; it starts when one is back"),
    (Reason.HELD, Evidence(), "held back until somebody releases it"),
    (Reason.DEPENDENCY, Evidence(blocked_by=(A, B)), "waits for a, b"),
    (Reason.DEPENDENCY, Evidence(blocked_by=(A, B, C)), "waits for a, b, c"),
    (Reason.DEPENDENCY, Evidence(blocked_by=(A, B, C, D)), "waits for a, b, c and 1 more"),
    (Reason.NOT_BEFORE, Evidence(), "its last launch failed; it is tried again after a pause"),
    (Reason.NO_AGENT, Evidence(), "no agent that is left could run it"),
    (
        Reason.NO_AGENT,
        Evidence(agents=(AgentId("x"),)),
        "only x could run it, and cannot be given anything now",
    ),
    (
        Reason.NO_AGENT,
        Evidence(agents=(AgentId("x"),), devices=(DeviceId("cuda0"),)),
        "only x could run it, and cuda0 there is broken",
    ),
    (Reason.ARRAY_LIMIT, Evidence(), "as many tasks of its array run as its max_parallel allows"),
    (Reason.QUOTA, Evidence(quota=QuotaId("user:ann")), "the quota user:ann stands against it"),
    (
        Reason.QUOTA,
        Evidence(quota=QuotaId("user:ann"), slot="cpu", requested="3", available="2"),
        "the quota user:ann stands against it; it asks for 3 cpu, 2 are left",
    ),
    (Reason.BEHIND_HEAD, Evidence(blocked_by=(A,)), "waits behind a, which is next"),
    (Reason.MAKING_ROOM, Evidence(blocked_by=(A, B)), "starts when a, b have made room for it"),
    (Reason.MAKING_ROOM, Evidence(), "starts when others have made room for it"),
    (Reason.RESERVED, Evidence(blocked_by=(A,)), "would fit now, and would delay a, which is next"),
    (
        Reason.INSUFFICIENT,
        Evidence(slot="cpu", requested="4", available="3"),
        "needs 4 cpu per kernel, and no agent has more than 3 free",
    ),
    (
        Reason.INSUFFICIENT,
        Evidence(slot="cpu", requested="4", available="3", blocked_by=(A,)),
        "needs 4 cpu per kernel, and no agent has more than 3 free; held by a",
    ),
    (Reason.FRAGMENTED, Evidence(), "enough of each slot is free in sum, but not together in one place"),
    (
        Reason.FRAGMENTED,
        Evidence(slot="cpu", blocked_by=(B,)),
        "enough cpu is free in sum, but not together in one place; held by b",
    ),
    (
        Reason.GANG_INCOMPLETE,
        Evidence(fits_kernels=3, blocked_by=(A,)),
        "3 of its kernels would fit now; they start all at once or not at all; held by a",
    ),
]
HOUR_MS = 3_600_000
TRAIN = Workload(user=UserId("ann"), program="train.py", milli=4000, limit_ms=None)


@pytest.mark.parametrize(("reason", "evidence", "words"), WORDS, ids=lambda one: one if isinstance(one, Reason) else "")
def test_a_reason_in_words(reason: Reason, evidence: Evidence, words: str) -> None:
    assert explain(Verdict(reason=reason, evidence=evidence)) == words


def test_there_are_words_for_every_reason() -> None:
    assert {reason for reason, _, _ in WORDS} == set(Reason)


def sentence(*runs: tuple[Workload, int], of: Workload = TRAIN) -> str:
    predictor = Predictor()
    for workload, duration_ms in runs:
        predictor.learn(workload, duration_ms=duration_ms)
    found = predictor.predict(of)
    assert found is not None
    return found.sentence()


def test_one_run_and_two_runs() -> None:
    bob = replace(TRAIN, user=UserId("bob"))
    assert sentence((TRAIN, HOUR_MS)) == "your last run of train.py on 4 GPUs: 1 h"
    assert sentence((TRAIN, HOUR_MS), (TRAIN, 3 * HOUR_MS)) == "median of your last 2 runs of train.py on 4 GPUs: 2 h"
    assert sentence((bob, HOUR_MS)) == "the last run of everybody on 4 GPUs: 1 h"
    assert sentence((bob, HOUR_MS), (bob, HOUR_MS)) == "median of the last 2 runs of everybody on 4 GPUs: 1 h"


@pytest.mark.parametrize(
    ("milli", "words"), [(0, "no GPU"), (1000, "1 GPU"), (2000, "2 GPUs"), (500, "0.5 GPUs"), (1250, "1.25 GPUs")]
)
def test_sizes(milli: int, words: str) -> None:
    of = replace(TRAIN, milli=milli)
    assert sentence((of, HOUR_MS), of=of) == f"your last run of train.py on {words}: 1 h"


@pytest.mark.parametrize(
    ("runs_ms", "estimate_ms"), [((5,), 5), ((1, 4), 2), ((9, 1, 4), 4), ((9, 1, 4, 6), 5), ((0, 0, 7), 0)]
)
def test_the_median(runs_ms: tuple[int, ...], estimate_ms: int) -> None:
    predictor = Predictor()
    for duration_ms in runs_ms:
        predictor.learn(TRAIN, duration_ms=duration_ms)
    found = predictor.predict(TRAIN)
    assert found is not None
    assert (found.estimate_ms, found.runs, found.is_limited) == (estimate_ms, len(runs_ms), False)


@pytest.mark.parametrize(("limit_ms", "estimate_ms", "is_limited"), [(9, 9, True), (10, 10, False), (11, 10, False)])
def test_a_limit_counts_where_it_is_below_the_median(limit_ms: int, estimate_ms: int, is_limited: bool) -> None:
    predictor = Predictor()
    predictor.learn(TRAIN, duration_ms=10)
    found = predictor.predict(replace(TRAIN, limit_ms=limit_ms))
    assert found is not None
    assert (found.estimate_ms, found.is_limited) == (estimate_ms, is_limited)


def test_the_likeness_that_saw_no_run_for_the_longest_time_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A workload has six likenesses at most; those of size, user and all are shared."""
    assert KEYS_MAX == 100_000
    monkeypatch.setattr(predict, "KEYS_MAX", 6)
    other = replace(TRAIN, program="eval.py", milli=1000, user=UserId("bob"))
    assert "train.py" in sentence((other, 1), (TRAIN, 2))
    assert "eval.py" not in sentence((other, 1), (TRAIN, 2), of=other)
    assert "train.py" in sentence((TRAIN, 2), (replace(TRAIN, program="b.py"), 2))
    assert "train.py" not in sentence((TRAIN, 2), *((replace(TRAIN, program=f"{n}.py"), 2) for n in range(2)))


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (999, "less than a second"),
        (1_000, "1 s"),
        (59_999, "59 s"),
        (60_000, "1 min"),
        (3_599_000, "59 min 59 s"),
        (3_600_000, "1 h"),
        (86_399_000, "23 h 59 min"),
        (86_400_000, "1 d"),
        (86_460_000, "1 d"),
        (90_000_000 * 1000, "1041 d 16 h"),
    ],
)
def test_durations(duration_ms: int, text: str) -> None:
    assert duration_text(duration_ms) == text
