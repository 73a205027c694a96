"""Requests: validation, normalization, and the error of each refusal."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aliquot.core.validation.fields import label, tasks_of
from aliquot.core.validation.session import (
    SHARED_BYTES_MAX,
    SHARED_MAX,
    priority_of,
    short_name,
    spec_of,
    tags_of,
    with_full_names,
)
from aliquot_schema.errors import (
    AliquotError,
    InvalidAmount,
    InvalidRequest,
    LimitExceeded,
    NotMultipleOfQuantum,
    UnsupportedField,
)
from aliquot_schema.requests import NewFallback, NewSession
from aliquot_schema.sessions import (
    CLUSTER_SIZE_MAX,
    COMMAND_BYTES_MAX,
    DEPENDENCIES_MAX,
    DURATION_S_MAX,
    ENVIRONMENT_MAX,
    RETRIES_MAX,
    TAGS_MAX,
    DependencyCondition,
    Priority,
    SessionSpec,
)

HALF = "a\ud800"
"""Half a surrogate pair, as JSON may bring it."""


def spec(**changes: Any) -> SessionSpec:
    plain: dict[str, Any] = {"argv": ("true",), "shell": None, "slots": [("cuda.device", "1")]}
    return spec_of(NewSession(**(plain | changes)))


def smaller(shares: str, after_s: float) -> NewFallback:
    return NewFallback(slots=[("cuda.shares", shares)], after_s=after_s)


def test_fallbacks_signals_and_arrays_are_read() -> None:
    taken = spec(
        fallbacks=[smaller("0.5", 60), smaller("0.25", 90.5)], checkpoint_signal="usr1", grace=5, models=["*H100*"] * 2
    )
    assert [(dict(one.slots), one.after_ms) for one in taken.fallbacks] == [
        ({"cuda.shares": 500}, 60_000),
        ({"cuda.shares": 250}, 90_500),
    ]
    assert (taken.checkpoint_signal, taken.grace_ms, taken.models) == (10, 5000, ("*H100*",))
    request = NewSession(argv=("true",), shell=None, slots=[], array="0-99,105", max_parallel=4)
    tasks = tasks_of(request)
    assert tasks is not None
    assert (len(tasks.waiting), str(tasks.waiting), tasks.max_parallel) == (101, "0-99,105", 4)


@pytest.mark.parametrize(
    ("array", "most", "error"),
    [
        ("", None, InvalidRequest),
        ("3-1", None, InvalidRequest),
        ("0-999999999", None, LimitExceeded),
        ("0-9", 0, InvalidRequest),
        (None, 2, InvalidRequest),
        ("a", None, InvalidRequest),
    ],
)
def test_invalid_job_arrays_are_refused(array: str | None, most: int | None, error: type[Exception]) -> None:
    with pytest.raises(error):
        tasks_of(NewSession(argv=("true",), shell=None, slots=[], array=array, max_parallel=most))


def test_a_request_with_every_field_is_accepted() -> None:
    taken = spec(
        argv=None,
        shell="echo 'ü'",
        slots=[("mem", "2g"), ("cuda.shares", "1.25"), ("cpu", "0")],
        cluster_size=2,
        gpu_memory_gb="40.5",
        environment=[("A", "2"), ("_b2", "ü=\n")],
        working_directory="/data/x",
        estimated_duration=1.5,
        time_limit=0.0001,
        max_retries=3,
        depends_on=[("ses_1", "after_ok"), ("ses_2", "after_any"), ("ses_1", "after_ok")],
    )
    assert taken.argv == ("/bin/sh", "-c", "echo 'ü'")
    assert dict(taken.slots) == {"cuda.shares": 1250, "mem": 2**31}
    assert taken.gpu_memory_bytes == 40_500_000_000
    assert taken.environment == {"A": "2", "_b2": "ü=\n"}
    assert (taken.estimated_duration_ms, taken.time_limit_ms) == (1500, 1)
    assert [(link.session_id, link.condition) for link in taken.depends_on] == [
        ("ses_1", DependencyCondition.AFTER_OK),
        ("ses_2", DependencyCondition.AFTER_ANY),
    ]


@pytest.mark.parametrize(
    ("changes", "error", "field"),
    [
        ({"argv": None}, InvalidRequest, "command"),
        ({"shell": "true"}, InvalidRequest, "command"),
        ({"argv": ()}, InvalidRequest, "command"),
        ({"argv": (" ", "x")}, InvalidRequest, "command"),
        ({"argv": None, "shell": " \n"}, InvalidRequest, "command"),
        ({"argv": ("true", "a\0b")}, InvalidRequest, "command"),
        ({"argv": ("true", HALF)}, InvalidRequest, "command"),
        ({"argv": ("x" * COMMAND_BYTES_MAX,)}, LimitExceeded, "command"),
        ({"argv": ("ü" * (COMMAND_BYTES_MAX // 2),)}, LimitExceeded, "command"),
        ({"argv": ("true", *[""] * COMMAND_BYTES_MAX)}, LimitExceeded, "command"),
        ({"slots": []}, InvalidRequest, "slots"),
        ({"slots": [("cpu", "0"), ("mem", "0")]}, InvalidRequest, "slots"),
        ({"slots": [("cpu", "1"), ("cpu", "1")]}, InvalidRequest, "slots"),
        ({"slots": [("CPU", "1")]}, InvalidRequest, "slots"),
        ({"slots": [(HALF, "1")]}, InvalidRequest, "slots"),
        ({"slots": [("a." * 60, "1")]}, InvalidRequest, "slots"),
        ({"slots": [("cpu", "-1")]}, InvalidAmount, "slots"),
        ({"slots": [("cpu", "NaN")]}, InvalidAmount, "slots"),
        ({"slots": [("cpu", "inf")]}, InvalidAmount, "slots"),
        ({"slots": [("cpu", "unlimited")]}, InvalidAmount, "slots"),
        ({"slots": [("cpu", "")]}, InvalidAmount, "slots"),
        ({"slots": [("cpu", HALF)]}, InvalidAmount, "slots"),
        ({"slots": [("cpu", "9" * 1_000_000)]}, InvalidAmount, "slots"),
        ({"slots": [("cpu", "1e30")]}, InvalidAmount, "slots"),
        ({"slots": [("cpu", "1.5")]}, NotMultipleOfQuantum, "slots"),
        ({"slots": [("cuda.shares", "0.0005")]}, NotMultipleOfQuantum, "slots"),
        ({"cluster_size": 0}, InvalidRequest, "cluster_size"),
        ({"cluster_size": CLUSTER_SIZE_MAX + 1}, LimitExceeded, "cluster_size"),
        ({"gpu_memory_gb": "0"}, InvalidRequest, "gpu_memory_gb"),
        ({"gpu_memory_gb": "-1"}, InvalidRequest, "gpu_memory_gb"),
        ({"gpu_memory_gb": "NaN"}, InvalidRequest, "gpu_memory_gb"),
        ({"gpu_memory_gb": "sNaN"}, InvalidRequest, "gpu_memory_gb"),
        ({"gpu_memory_gb": "80g"}, InvalidRequest, "gpu_memory_gb"),
        ({"gpu_memory_gb": "1e999999"}, InvalidRequest, "gpu_memory_gb"),
        ({"gpu_memory_gb": "1e-12"}, InvalidRequest, "gpu_memory_gb"),
        ({"gpu_memory_gb": "9" * 100_000}, InvalidRequest, "gpu_memory_gb"),
        ({"gpu_memory_gb": "1", "slots": [("cpu", "1")]}, InvalidRequest, "gpu_memory_gb"),
        ({"gpu_memory_gb": "1", "slots": [("cpu", "1"), ("cuda.device", "0")]}, InvalidRequest, "gpu_memory_gb"),
        ({"environment": [("", "1")]}, InvalidRequest, "environment"),
        ({"environment": [("1A", "1")]}, InvalidRequest, "environment"),
        ({"environment": [("A=B", "1")]}, InvalidRequest, "environment"),
        ({"environment": [("Ü", "1")]}, InvalidRequest, "environment"),
        ({"environment": [("A\n", "1")]}, InvalidRequest, "environment"),
        ({"environment": [("ALIQUOT_SHARE", "1")]}, InvalidRequest, "environment"),
        ({"environment": [("CUDA_VISIBLE_DEVICES", "0")]}, InvalidRequest, "environment"),
        ({"environment": [("RANK", "0")]}, InvalidRequest, "environment"),
        ({"environment": [("A", "1"), ("A", "2")]}, InvalidRequest, "environment"),
        ({"environment": [("A", "x\0")]}, InvalidRequest, "environment"),
        ({"environment": [("A", HALF)]}, InvalidRequest, "environment"),
        ({"environment": [(f"A{i}", "") for i in range(ENVIRONMENT_MAX + 1)]}, LimitExceeded, "environment"),
        ({"environment": [("A", "x" * COMMAND_BYTES_MAX)]}, LimitExceeded, "environment"),
        ({"working_directory": "x"}, InvalidRequest, "working_directory"),
        ({"working_directory": "/" + "x" * 4096}, InvalidRequest, "working_directory"),
        ({"working_directory": "/\0"}, InvalidRequest, "working_directory"),
        ({"estimated_duration": 0.0}, InvalidRequest, "estimated_duration"),
        ({"estimated_duration": float("nan")}, InvalidRequest, "estimated_duration"),
        ({"time_limit": float("inf")}, InvalidRequest, "time_limit"),
        ({"time_limit": -1.0}, InvalidRequest, "time_limit"),
        ({"time_limit": DURATION_S_MAX + 1.0}, InvalidRequest, "time_limit"),
        ({"max_retries": -1}, InvalidRequest, "max_retries"),
        ({"max_retries": RETRIES_MAX + 1}, LimitExceeded, "max_retries"),
        ({"unsupported": {"colour": 1}}, UnsupportedField, "colour"),
        ({"retries_own_failures": True}, InvalidRequest, "retries_own_failures"),
        ({"checkpoint_signal": "SIGKILL"}, InvalidRequest, "checkpoint_signal"),
        ({"checkpoint_signal": "SIGNOTHING"}, InvalidRequest, "checkpoint_signal"),
        ({"checkpoint_signal": "0"}, InvalidRequest, "checkpoint_signal"),
        ({"grace": 0}, InvalidRequest, "grace"),
        ({"models": [" "]}, InvalidRequest, "models"),
        ({"models": ["H100"], "slots": [("cpu", "1")]}, InvalidRequest, "models"),
        ({"labels": [("a", "1"), ("a", "2")]}, InvalidRequest, "labels"),
        ({"fallbacks": [smaller("1", 10)]}, InvalidRequest, "fallbacks"),
        ({"fallbacks": [smaller("2", 10)]}, InvalidRequest, "fallbacks"),
        ({"fallbacks": [smaller("0.5", 0)]}, InvalidRequest, "fallbacks"),
        ({"fallbacks": [smaller("0.5", 10), smaller("0.2", 10)]}, InvalidRequest, "fallbacks"),
        ({"fallbacks": [smaller("0.5", 10), smaller("0.6", 20)]}, InvalidRequest, "fallbacks"),
        ({"fallbacks": [smaller("0.5", at) for at in range(1, 11)]}, LimitExceeded, "fallbacks"),
        ({"unsupported": {"image": "x"}}, UnsupportedField, "image"),
        ({"depends_on": [("ses_1", "after_all")]}, InvalidRequest, "depends_on"),
        ({"depends_on": [("ses_1", HALF)]}, InvalidRequest, "depends_on"),
        ({"depends_on": [(HALF, "after_ok")]}, InvalidRequest, "depends_on"),
        ({"depends_on": [("ses_\0", "after_ok")]}, InvalidRequest, "depends_on"),
        ({"depends_on": [("ses_1", "after_ok")] * (DEPENDENCIES_MAX + 1)}, LimitExceeded, "depends_on"),
    ],
    ids=lambda value: repr(value)[:60] if isinstance(value, dict) else None,
)
def test_invalid_requests_are_refused_with_the_field_and_a_short_message(
    changes: dict[str, Any], error: type[InvalidRequest], field: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        spec(**changes)
    assert type(refused.value) is error
    assert refused.value.field == field
    assert len(refused.value.message) < 400
    refused.value.message.encode()


@pytest.mark.parametrize(
    "changes",
    [
        {"argv": ("x" * (COMMAND_BYTES_MAX - 1),)},
        {"cluster_size": CLUSTER_SIZE_MAX},
        {"max_retries": RETRIES_MAX},
        {"time_limit": float(DURATION_S_MAX)},
        {"gpu_memory_gb": "1000000"},
        {"environment": [(f"A{i}", "") for i in range(ENVIRONMENT_MAX)]},
        {"environment": [("A", "x" * (COMMAND_BYTES_MAX - 3))]},
        {"working_directory": "/" + "x" * 4095},
        {"depends_on": [(f"ses_{i}", "after_ok") for i in range(DEPENDENCIES_MAX)]},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_requests_exactly_at_a_limit_are_accepted(changes: dict[str, Any]) -> None:
    spec(**changes)


def test_a_refusal_for_a_limit_gives_the_limit_and_the_actual_value() -> None:
    with pytest.raises(LimitExceeded) as refused:
        spec(cluster_size=5000)
    assert (refused.value.limit, refused.value.actual) == (CLUSTER_SIZE_MAX, 5000)


@pytest.mark.parametrize(
    ("text", "level"),
    [("low", Priority.LOW), (" High ", Priority.HIGH), ("4", Priority.CRITICAL), ("2", Priority.NORMAL)],
)
def test_a_priority_is_given_by_name_or_by_number(text: str, level: Priority) -> None:
    assert priority_of(text) is level


@pytest.mark.parametrize("text", ["", "0", "5", "urgent", "２", HALF])
def test_unknown_priorities_are_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        priority_of(text)


def test_labels_and_tags_are_short_plain_text() -> None:
    assert label(None, field="name") is None
    assert label("x" * 256, field="name") == "x" * 256
    assert tags_of([("team", "vision"), ("stage", "2")]) == {"team": "vision", "stage": "2"}
    with pytest.raises(InvalidRequest):
        tags_of([("team", "vision"), ("team", "audio")])
    for wrong in ("x" * 257, "a\0", HALF):
        with pytest.raises(InvalidRequest):
            label(wrong, field="name")
        with pytest.raises(InvalidRequest):
            tags_of([("team", wrong)])
    with pytest.raises(LimitExceeded):
        tags_of([(f"t{i}", "") for i in range(TAGS_MAX + 1)])


TEXTS = st.text(st.characters(codec=None), max_size=12) | st.sampled_from(["1", "NaN", "1e5", "-0", "٣", "1_0", "0x1"])
PAIRS = st.lists(st.tuples(TEXTS, TEXTS), max_size=3)


@given(TEXTS, PAIRS, PAIRS, PAIRS, TEXTS, st.none() | st.floats())
def test_any_request_is_accepted_or_refused_with_a_typed_error(
    word: str, slots: list[Any], environment: list[Any], depends_on: list[Any], memory: str, seconds: float | None
) -> None:
    changes = {"slots": [("cuda.device", "1"), *slots], "environment": environment, "depends_on": depends_on}
    try:
        taken = spec(argv=(word, word), gpu_memory_gb=memory, time_limit=seconds, working_directory=word, **changes)
    except AliquotError:
        return
    assert "".join([*taken.argv, *taken.environment.values()]).encode()


def test_equal_requests_share_one_spec() -> None:
    assert spec(environment=[("SEED", "1")]) is spec(environment=[("SEED", "1")])
    assert spec(environment=[("SEED", "1")]) is not spec(environment=[("SEED", "2")])
    assert spec(time_limit=1.0) is not spec(estimated_duration=1.0)


def test_long_specs_are_not_shared() -> None:
    long = [("TEXT", "a" * SHARED_BYTES_MAX)]
    assert spec(environment=long) == spec(environment=long)
    assert spec(environment=long) is not spec(environment=long)


def test_the_number_of_shared_specs_is_bounded() -> None:
    first = spec(environment=[("SEED", "first")])
    for seed in range(SHARED_MAX):
        spec(environment=[("SEED", str(seed))])
    assert spec(environment=[("SEED", "first")]) is not first


@pytest.mark.parametrize(
    ("known", "slot", "text", "expected"),
    [
        (("cpu", "cuda.device", "cuda.shares"), "cuda.device", "2", "gpu"),
        (("cpu", "cuda.device", "cuda.shares"), "cuda.shares", "0.5", "gpu"),
        (("cpu", "cuda.device", "cuda.shares"), "cuda.shares", "2", "cuda.shares"),
        (("cpu", "cuda.device", "cuda.shares"), "cpu", "2", "cpu"),
        (("cuda.device", "rocm.device"), "cuda.device", "2", "cuda.device"),
        (("cuda.device", "gpu"), "cuda.device", "2", "cuda.device"),
        (("cuda.device", "cuda.mem"), "cuda.mem", "2", "cuda.mem"),
    ],
)
def test_a_short_slot_name_is_used_where_it_is_unambiguous(
    known: tuple[str, ...], slot: str, text: str, expected: str
) -> None:
    assert short_name(slot, text, known=known) == expected
    [(full, _)] = with_full_names([(expected, text)], known=known, field="slots")
    assert full == slot
