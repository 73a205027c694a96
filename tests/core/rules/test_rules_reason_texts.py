"""Texts for users: one-sentence reasons, and expected run times with their basis."""

import pytest
from msgspec.structs import replace

from aliquot.core import prediction
from aliquot.core.prediction import KEYS_MAX, Predictor, Workload, duration_text
from aliquot.core.scheduler.reason_text import explain
from aliquot_schema.ids import AgentId, DeviceId, QuotaId, SessionId, UserId
from aliquot_schema.reasons import Evidence, Reason, Verdict
from aliquot_schema.resources.slots import amount_text

A, B, C, D = (SessionId(name) for name in "abcd")
WORDS = [
    (
        Reason.STOPPED,
        Evidence(),
        "Scheduling is stopped; the session can start after an operator starts it again, or, if the server only "
        "observes, when it runs without --observe.",
    ),
    (Reason.CLUSTER_UNAVAILABLE, Evidence(), "No agent accepts sessions now; the session waits for one to come back."),
    (Reason.HELD, Evidence(), "Held until it is released."),
    (Reason.DEPENDENCY, Evidence(blocked_by=(A, B)), "Waits for a, b."),
    (Reason.DEPENDENCY, Evidence(blocked_by=(A, B, C)), "Waits for a, b, c."),
    (Reason.DEPENDENCY, Evidence(blocked_by=(A, B, C, D)), "Waits for a, b, c and 1 more."),
    (Reason.NOT_BEFORE, Evidence(), "Its last attempt failed; it is tried again after a pause."),
    (
        Reason.NOT_BEFORE,
        Evidence(booking="exp", until_us=86_400_000_000),
        "Its booking exp begins at 1970-01-02 00:00 UTC.",
    ),
    (
        Reason.BOOKED,
        Evidence(booking="exp", until_us=86_400_000_000),
        "The devices that are free are booked (exp; next change at 1970-01-02 00:00 UTC). A session that ends before a "
        "booking begins, by its time limit, or that is preemptible, may use them until then.",
    ),
    (
        Reason.BOOKED,
        Evidence(booking="exp"),
        "Its booking exp has not enough free for it; other devices are not part of the booking.",
    ),
    (Reason.NO_AGENT, Evidence(), "No agent in service can run it."),
    (
        Reason.NO_AGENT,
        Evidence(agents=(AgentId("x"),)),
        "Only x can run it, which takes no sessions now.",
    ),
    (
        Reason.NO_AGENT,
        Evidence(agents=(AgentId("x"),), devices=(DeviceId("cuda0"),)),
        "Only x can run it, where cuda0 is unhealthy.",
    ),
    (
        Reason.NO_AGENT,
        Evidence(slot="rocm.device", requested="1", available="0", devices=(DeviceId("rocm0"), DeviceId("rocm1"))),
        "No agent has a ROCm GPU any more: rocm0, rocm1 are gone. It starts when one is back; "
        "a smaller request does not help.",
    ),
    (
        Reason.NO_AGENT,
        Evidence(slot="cuda.device", requested="1", available="0", devices=(DeviceId("cuda0"),)),
        "No agent has a CUDA GPU any more: cuda0 is gone. It starts when one is back; a smaller request does not help.",
    ),
    (
        Reason.NO_AGENT,
        Evidence(slot="tpu.device", requested="1", available="0"),
        "No agent has a TPU. It starts when one is back; a smaller request does not help.",
    ),
    (Reason.ARRAY_LIMIT, Evidence(), "Its array already runs as many tasks at a time as it allows."),
    (Reason.QUOTA, Evidence(quota=QuotaId("user:ann")), "User ann has used their quota."),
    (
        Reason.QUOTA,
        Evidence(quota=QuotaId("project:vision"), until_us=1_796_083_200_000_000),
        "Project vision has used its GPU-hours of this month; the quota renews on 2026-12-01 UTC.",
    ),
    (
        Reason.QUOTA,
        Evidence(quota=QuotaId("project:vision"), slot="cuda.device", requested="2", available="0"),
        "Project vision has 0 GPUs left in its quota; this session needs 2 GPUs.",
    ),
    (
        Reason.QUOTA,
        Evidence(quota=QuotaId("cluster"), slot="mem", requested="2g", available="512m"),
        "The cluster has 512 MiB of memory left in its quota; this session needs 2 GiB of memory.",
    ),
    (
        Reason.QUOTA,
        Evidence(quota=QuotaId("user:ann"), slot="cpu", requested="3", available="2"),
        "User ann has 2 cores left in their quota; this session needs 3 cores.",
    ),
    (
        Reason.QUOTA,
        Evidence(
            quota=QuotaId("project:vision"), slot="cuda.device", requested="2", available="0", limit="4", held="4"
        ),
        "Project vision may hold 4 GPUs and holds 4; this session needs 2. "
        "It starts when sessions under this quota have ended.",
    ),
    (
        Reason.QUOTA,
        Evidence(
            quota=QuotaId("project:vision"), slot="cuda.shares", requested="0.50", available="0", limit="0", held="3"
        ),
        "Project vision may hold 0 GPUs and holds 3; this session needs 0.5. It cannot start under this quota.",
    ),
    (
        Reason.QUOTA,
        Evidence(
            quota=QuotaId("user:ann"),
            slot="cuda.shares",
            requested="0.50",
            available="0.25",
            limit="1",
            held="0.75",
            may_borrow=True,
        ),
        "User ann owns 1 GPU and holds 0.75; this session needs 0.5. Only a preemptible session may borrow idle GPUs.",
    ),
    (
        Reason.QUOTA,
        Evidence(
            quota=QuotaId("cluster:"),
            slot="mem",
            requested="2g",
            available="512m",
            limit="8g",
            held="7680m",
            may_borrow=True,
        ),
        "The cluster owns 8 GiB of memory and holds 7.5 GiB; this session needs 2 GiB. "
        "Only a preemptible session may borrow idle memory.",
    ),
    (
        Reason.QUOTA,
        Evidence(quota=QuotaId("project:vision"), limit="100", until_us=1_796_083_200_000_000),
        "Project vision has used its 100 GPU-hours of this month; the quota renews on 2026-12-01 UTC.",
    ),
    (Reason.BEHIND_HEAD, Evidence(blocked_by=(A,)), "Waits behind a, which is next in the queue."),
    (Reason.MAKING_ROOM, Evidence(blocked_by=(A, B)), "Starts when a, b have released their devices."),
    (
        Reason.NO_AGENT,
        Evidence(agents=(AgentId("x"), AgentId("y")), is_temporary=True, leaves_us=0),
        "Only x, y can run it, and the last of them leaves at 1970-01-01 00:00 UTC: they take only preemptible "
        "sessions, and those whose time limit ends before.",
    ),
    (Reason.MAKING_ROOM, Evidence(blocked_by=(A,)), "Starts when a has released its devices."),
    (Reason.MAKING_ROOM, Evidence(), "Starts when preempted sessions have released their devices."),
    (Reason.RESERVED, Evidence(blocked_by=(A,)), "Fits now, but would delay a, which is next."),
    (
        Reason.INSUFFICIENT,
        Evidence(slot="cpu", requested="4", available="3"),
        "Each kernel needs 4 cores; agents have at most 3 free.",
    ),
    (
        Reason.INSUFFICIENT,
        Evidence(slot="cpu", requested="4", available="3", blocked_by=(A,)),
        "Each kernel needs 4 cores; agents have at most 3 free; held by a.",
    ),
    (Reason.FRAGMENTED, Evidence(), "Enough of each resource is free in total, but not in one place."),
    (
        Reason.FRAGMENTED,
        Evidence(slot="cpu", blocked_by=(B,)),
        "Enough cores are free in total, but not in one place; held by b.",
    ),
    (
        Reason.GANG_INCOMPLETE,
        Evidence(fits_kernels=3, blocked_by=(A,)),
        "3 of its kernels fit now, and all must start together; held by a.",
    ),
]
MINUTE_MS = 60_000
HOUR_MS = 3_600_000
TRAIN = Workload(user=UserId("ann"), program="train.py", milli=4000, limit_ms=None)


@pytest.mark.parametrize(("reason", "evidence", "words"), WORDS, ids=lambda one: one if isinstance(one, Reason) else "")
def test_each_reason_has_the_expected_explanation(reason: Reason, evidence: Evidence, words: str) -> None:
    assert explain(Verdict(reason=reason, evidence=evidence)) == words


@pytest.mark.parametrize(
    ("slot", "amount", "text"),
    [
        ("cuda.device", "1", "1 GPU"),
        ("rocm.device", "0", "0 GPUs"),
        ("cuda.shares", "0.25", "0.25 GPU"),
        ("cuda.shares", "1.00", "1 GPU"),
        ("cuda.shares", "2.50", "2.5 GPUs"),
        ("tpu.device", "10", "10 TPUs"),
        ("cuda.mem", "10093173146", "9.4 GiB of GPU memory"),
        ("mem", "2k", "2 KiB of memory"),
        ("mem", "1000", "1000 bytes of memory"),
        ("cpu", "1", "1 core"),
        ("cuda.mig-1g", "3", "3 cuda.mig-1g"),
        (None, None, "0"),
    ],
)
def test_amounts_are_shown_in_readable_units(slot: str | None, amount: str | None, text: str) -> None:
    assert amount_text(slot, amount) == text


def test_the_expected_explanations_cover_every_reason() -> None:
    assert {reason for reason, _, _ in WORDS} == set(Reason)


def sentence(*runs: tuple[Workload, int], of: Workload = TRAIN) -> str:
    predictor = Predictor()
    for workload, duration_ms in runs:
        predictor.learn(workload, duration_ms=duration_ms)
    found = predictor.predict(of)
    assert found is not None
    return found.sentence()


def test_a_prediction_names_the_runs_it_is_based_on() -> None:
    bob = replace(TRAIN, user=UserId("bob"))
    mine = [(TRAIN, hours * HOUR_MS) for hours in (1, 3, 5)]
    assert sentence(*mine) == "mean of ann's last 3 runs of train.py on 4 GPUs: 3 h"
    assert sentence(*[(bob, HOUR_MS)] * 4) == "mean of the last 4 runs of all users on 4 GPUs: 1 h"


@pytest.mark.parametrize(
    ("milli", "words"), [(0, "no GPU"), (1000, "1 GPU"), (2000, "2 GPUs"), (500, "0.5 GPU"), (1250, "1.25 GPUs")]
)
def test_a_prediction_names_the_number_of_gpus(milli: int, words: str) -> None:
    of = replace(TRAIN, milli=milli)
    assert sentence(*[(of, HOUR_MS)] * 3, of=of) == f"mean of ann's last 3 runs of train.py on {words}: 1 h"


@pytest.mark.parametrize(
    ("runs_min", "mean_min", "median_min"), [((9, 1, 5), 5, 5), ((9, 1, 4, 6), 5, 5), ((2, 2, 8), 4, 2)]
)
def test_a_prediction_has_the_mean_and_the_median_of_past_runs(
    runs_min: tuple[int, ...], mean_min: int, median_min: int
) -> None:
    predictor = Predictor()
    for minutes in runs_min:
        predictor.learn(TRAIN, duration_ms=minutes * MINUTE_MS)
    found = predictor.predict(TRAIN)
    assert found is not None
    assert (found.estimate_ms, found.median_ms) == (mean_min * MINUTE_MS, median_min * MINUTE_MS)
    assert (found.runs, found.is_limited) == (len(runs_min), False)


@pytest.mark.parametrize(("limit_min", "estimate_min", "is_limited"), [(9, 9, True), (10, 10, False), (11, 10, False)])
def test_a_time_limit_below_the_mean_caps_the_prediction(limit_min: int, estimate_min: int, is_limited: bool) -> None:
    predictor = Predictor()
    for _ in range(3):
        predictor.learn(TRAIN, duration_ms=10 * MINUTE_MS)
    found = predictor.predict(replace(TRAIN, limit_ms=limit_min * MINUTE_MS))
    assert found is not None
    assert (found.estimate_ms, found.is_limited) == (estimate_min * MINUTE_MS, is_limited)


def test_the_workload_key_without_a_run_for_the_longest_time_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A workload has at most six similarity keys; size, user and all are shared."""
    assert KEYS_MAX == 100_000
    monkeypatch.setattr(prediction, "KEYS_MAX", 6)
    monkeypatch.setattr(prediction, "RUNS_MIN", 1)
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
def test_durations_are_shown_in_readable_units(duration_ms: int, text: str) -> None:
    assert duration_text(duration_ms) == text
