"""Parsing of command-line values, and formatting of answers."""

from datetime import UTC, datetime
from types import SimpleNamespace

import msgspec
import pytest
import typer

from aliquot.api.limits import Limits
from aliquot.cli import main
from aliquot.cli.alerts import _threshold
from aliquot.cli.cluster.policy import _warn
from aliquot.cli.cluster.policy_changes import input_of, nested
from aliquot.cli.cluster.quota import QuotaTerms, scope_of, terms
from aliquot.cli.connection.output import cells, duration, printable
from aliquot.cli.connection.server import UNREACHABLE, after_failure, after_refusal, failures_shown
from aliquot.cli.session.list import moment_of
from aliquot.cli.session.options import dependencies_of, echo_durations, pairs_of, seconds_of, slots_of
from aliquot.cli.session.show import preemption_note, verdict_lines
from aliquot.client import GraphQLFault, ServerUnreachable, UnexpectedAnswer
from aliquot.client.generated.enums import DependencyCondition, PreemptScope, QuotaScope, Reason
from aliquot.client.generated.policy import Quota
from aliquot.client.generated.scalars import SlotAmount
from aliquot.client.generated.sessions import Verdict
from aliquot_schema.deprecation import DeprecatedName


@pytest.mark.parametrize(
    ("text", "expected"),
    [("90", 90), ("90s", 90), ("15m", 900), ("2h30m", 9000), ("2h30", 9000), ("1h 30m", 5400), (None, None)],
)
def test_duration_options_are_parsed(text: str | None, expected: float | None) -> None:
    assert seconds_of(text, option="--time-limit") == expected


@pytest.mark.parametrize("text", ["", "soon", "30m1h", "-5", "2:30", "2h90"])
def test_invalid_durations_are_refused_with_the_format(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as caught:
        seconds_of(text, option="--time-limit")
    assert caught.value.exit_code == 2
    assert (
        f"--time-limit: {text!r} is not a duration; write it like 90s, 15m, 2h30m or 1d12h" in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        ({"time_limit": "2h30"}, ["aliquot: time limit 2 h 30 min"]),
        ({"time_limit": "5400s"}, ["aliquot: time limit 1 h 30 min"]),
        (
            {"time_limit": "90"},
            [
                "aliquot: time limit 90 s (1 min 30 s). Slurm reads -t 90 as minutes; for minutes write -t 90m",
            ],
        ),
        ({"time_limit": "5"}, ["aliquot: time limit 5 s. Slurm reads -t 5 as minutes; for minutes write -t 5m"]),
        ({"estimate": "90", "grace": "2m"}, ["aliquot: estimate 90 s (1 min 30 s)", "aliquot: grace 2 min"]),
        ({}, []),
    ],
)
def test_parsed_durations_are_printed(
    given: dict[str, str], lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    echo_durations(**{"time_limit": None, "estimate": None, "grace": None, "checkpoint_every": None, **given})
    said = capsys.readouterr()
    assert (said.out, said.err.splitlines()) == ("", lines)


@pytest.mark.parametrize(
    ("rule", "text", "threshold"),
    [
        ("long_wait", "30m", 1800),
        ("long_wait", "1800", 1800),
        ("queue_backlog", "30", 30),
        ("failure_rate", None, None),
    ],
)
def test_alert_thresholds_in_seconds_accept_durations(rule: str, text: str | None, threshold: int | None) -> None:
    assert _threshold(rule, text) == threshold


@pytest.mark.parametrize(
    ("rule", "text", "words"),
    [
        ("queue_backlog", "30m", "--above 30m: queue_backlog takes a whole number"),
        ("long_wait", "soon", "--above: 'soon' is not a duration; write it like 90s, 15m, 2h30m or 1d12h"),
        ("long_wait", "1.5s", "--above 1.5s: give whole seconds"),
    ],
)
def test_invalid_alert_thresholds_are_refused(
    rule: str, text: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit):
        _threshold(rule, text)
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "seconds"), [("half_life=604800", 604_800), ("half_life=7d", 604_800), ("half_life=2h30", 9000)]
)
def test_policy_fields_accept_durations(changes: str, seconds: float) -> None:
    assert input_of(nested([changes])).half_life == seconds


def test_a_policy_file_accepts_durations_in_nested_fields() -> None:
    wanted = input_of({"weights": {"age_unit": "7d"}, "pools": [{"name": "big", "default_limit": "2h30"}]})
    assert wanted.weights is not None
    assert wanted.pools is not None
    assert (wanted.weights.age_unit, wanted.pools[0].default_limit) == (604_800, 9000)


def test_an_invalid_duration_in_the_policy_is_refused_with_its_field(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        input_of(nested(["weights.age_unit=soon"]))
    assert "weights.age_unit: 'soon' is not a duration; write it like" in capsys.readouterr().err


def test_a_weight_without_effect_is_taken_with_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    for changes, is_warned in ((["weights.age_unit=1d"], True), (["weights.age=2", "order=sjf"], False)):
        _warn(nested(changes))
        said = capsys.readouterr().err
        assert said.startswith("warning: weights.age_unit: Without effect: ") is is_warned
        assert bool(said) is is_warned


def test_a_time_in_the_past_can_be_given_as_a_duration() -> None:
    whole, short = (moment_of(text, option="--since") for text in ("2h30m", "2h30"))
    assert whole is not None
    assert short is not None
    assert abs((short - whole).total_seconds()) < 60


def test_the_last_amount_of_a_repeated_slot_applies() -> None:
    found = slots_of(["cpu=1", "mem=2g", "cpu=4"])
    assert [(one.slot, one.amount) for one in found] == [("cpu", "4"), ("mem", "2g")]
    assert [(one.slot, one.amount) for one in slots_of(())] == [("cpu", "1")]


@pytest.mark.parametrize("text", ["cpu", "=1", ""])
def test_invalid_slot_amounts_are_refused(text: str) -> None:
    with pytest.raises(typer.Exit):
        slots_of([text])


@pytest.mark.parametrize("text", ["mem=64", "mem=1000000"])
def test_memory_without_a_unit_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as caught:
        slots_of([text])
    assert caught.value.exit_code == 2
    assert f"-r {text}: that is {text[4:]} bytes; write a unit, like mem=64g" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["mem=0", "mem=1048576", "mem=64g", "mem=64GB", "mem=unlimited"])
def test_memory_with_a_unit_or_of_many_bytes_is_taken(text: str) -> None:
    assert [f"{one.slot}={one.amount}" for one in slots_of([text])] == [text]


def test_a_request_for_half_a_device_is_refused_with_advice_to_use_shares() -> None:
    half = {"slot": "cuda.device", "amount": "0.5", "quantum": "1"}
    assert "cuda.shares=0.5" in (after_refusal("NotMultipleOfQuantum", half) or "")
    assert after_refusal("NotMultipleOfQuantum", {**half, "slot": "cuda.shares"}) is None


def test_an_unavailable_service_says_itself_whether_another_attempt_helps() -> None:
    assert after_refusal("Unavailable", {"message": "the key file does not have the key; copy it"}) is None


def test_an_answer_that_cannot_be_given_now_is_no_refusal(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended, failures_shown():
        raise GraphQLFault([{"message": "no server is leading", "extensions": {"code": "unavailable"}}])
    assert ended.value.exit_code == UNREACHABLE
    assert capsys.readouterr().err == "aliquot: no server is leading\n"


def test_a_not_found_error_names_the_list_command() -> None:
    advice = {
        kind: after_refusal("NotFound", {"kind": kind}) for kind in ("user", "api_key", "secret", "session", "job")
    }
    assert [advice["user"], advice["api_key"], advice["secret"], advice["session"]] == [
        f"`aliquot {lister}` shows all of them"
        for lister in ("user list", "key list", "secret list", "session list --all")
    ]
    assert advice["job"] is None


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate", "--ca-file"),
        ("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate has expired", "renews it"),
        ("[SSL: WRONG_VERSION_NUMBER] wrong version number", "http://"),
        ("Server disconnected without sending a response.", "https://"),
        ("[Errno 111] Connection refused", "aliquot serve"),
    ],
)
def test_the_advice_for_an_unreachable_server_depends_on_the_cause(said: str, advice: str) -> None:
    assert advice in (after_failure(ServerUnreachable(f"https://gpu01:8090: {said}")) or "")


def test_the_advice_for_a_request_that_a_proxy_refuses_as_too_large_names_the_limit() -> None:
    advice = after_failure(UnexpectedAnswer(413, "<html>")) or ""
    assert "proxy" in advice
    assert f"{Limits().body_bytes >> 20} MiB" in advice


def test_environment_values_may_contain_any_text() -> None:
    found = pairs_of(["A=b=c d", "B="], option="-e")
    assert found is not None
    assert [(one.name, one.value) for one in found] == [("A", "b=c d"), ("B", "")]
    assert pairs_of(None, option="-e") is None


def test_dependency_options_set_their_conditions() -> None:
    found = dependencies_of(ok=["ses_1"], ended=None, failed=["ses_2"])
    assert found is not None
    assert [(one.session_id, one.condition) for one in found] == [
        ("ses_1", DependencyCondition.AFTER_OK),
        ("ses_2", DependencyCondition.AFTER_FAIL),
    ]
    assert dependencies_of(ok=None, ended=None, failed=None) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("user:anna", (QuotaScope.USER, "anna")),
        ("project:a:b", (QuotaScope.PROJECT, "a:b")),
        ("cluster", (QuotaScope.CLUSTER, "")),
    ],
)
def test_quota_scopes_are_parsed(text: str, expected: tuple[QuotaScope, str]) -> None:
    assert scope_of(text) == expected


@pytest.mark.parametrize("text", ["anna", "user", "user:", "cluster:x", "users:anna"])
def test_invalid_quota_scopes_are_refused(text: str) -> None:
    with pytest.raises(typer.Exit):
        scope_of(text)


def test_a_quota_change_keeps_unnamed_limits() -> None:
    there = Quota(
        scope=QuotaScope.USER,
        name="anna",
        version=3,
        max_slots=(SlotAmount(slot="cpu", amount="8"), SlotAmount(slot="cuda.device", amount="2")),
        own_slots=(),
        max_queued=10,
        gpu_hours_per_month=500,
        weight=None,
        budget=99.5,
        changed_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
    asked = QuotaTerms.read(
        max_slots=["cuda.device=none", "mem=4g"], own_slots=None, max_queued=None, gpu_hours="none", weight="2"
    )
    found = asked.over(there, scope=QuotaScope.USER, name="anna")
    assert [(one.slot, one.amount) for one in found.max_slots or ()] == [("cpu", "8"), ("mem", "4g")]
    assert (found.max_queued, found.gpu_hours_per_month, found.weight, found.expected_version) == (10, None, 2, 3)
    assert terms(there) == "--max cpu=8 --max cuda.device=2 --max-queued 10 --gpu-hours 500 --budget 99.5"
    assert found.budget == 99.5
    assert asked.over(None, scope=QuotaScope.USER, name="bob").expected_version == 0


@pytest.mark.parametrize("given", [{}, {"max_slots": ["cpu"]}, {"weight": "much"}, {"budget": "1,5"}])
def test_invalid_quota_limits_are_refused(given: dict[str, object]) -> None:
    nothing = dict.fromkeys(("max_slots", "own_slots", "max_queued", "gpu_hours", "weight"))
    with pytest.raises(typer.Exit):
        QuotaTerms.read(**(nothing | given))  # type: ignore[arg-type] # any given


def test_policy_fields_are_set_by_dotted_names() -> None:
    words = ["order=sjf", "weights.age=2", "weights.fair=3", "allow_fragmentation=true", 'pools=[{"name": "a"}]']
    found = input_of(nested(words))
    assert found.weights is not None
    assert found.pools is not None
    assert (found.order, found.weights.age, found.weights.fair, found.allow_fragmentation) == ("sjf", 2, 3, True)
    assert found.pools[0].name == "a"


@pytest.mark.parametrize(
    ("words", "old"),
    [
        (["preemption.victims=willing", "preemption.grace=30"], "preemption.victims=willing"),
        (['preemption={"victims": "willing", "grace": 30}'], "preemption.victims=willing"),
        (["preemption.preempt=willing", "preemption.grace=30"], "preemption.preempt=willing"),
    ],
)
def test_deprecated_policy_names_are_sent_as_the_new_ones(words: list[str], old: str) -> None:
    with pytest.warns(DeprecatedName, match=f"^{old} is deprecated; use preemption.preempt=preemptible"):
        rules = input_of(nested(words)).preemption
    assert rules is not None
    assert (rules.preempt, rules.victims, rules.grace) == ("preemptible", None, 30)


def test_a_printed_policy_with_old_and_new_names_is_read_without_a_warning() -> None:
    rules = input_of({"preemption": {"preempt": "none", "victims": "nobody"}}).preemption
    assert rules is not None
    assert (rules.preempt, rules.victims) == ("none", None)


def test_old_and_new_policy_names_must_agree(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        input_of({"preemption": {"preempt": "any", "victims": "nobody"}})
    assert "leave out victims, the deprecated name" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    ["", "order", "ordr=x", "weights.ages=1", "weights.age=old", "weights=1 weights.age=1", "pools=[", "a=1 a.b.c=2"],
)
def test_an_invalid_policy_is_refused(words: str) -> None:
    with pytest.raises(typer.Exit) as caught:
        input_of(nested(words.split()))
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(("number", "text"), [(0, "0s"), (59.6, "1m"), (3725, "1h 2m"), (90_000, "1d 1h"), (None, "")])
def test_durations_are_printed(number: float | None, text: str) -> None:
    assert duration(number) == text


def test_control_sequences_in_names_are_escaped() -> None:
    evil = "a\x1b]0;title\x07b\x9b2J\nc[red]"
    assert printable(evil).isprintable()
    (cell,) = cells(evil)
    assert cell.plain == printable(evil)
    assert cell.spans == []


PLAIN = Verdict(
    reason=Reason.INSUFFICIENT,
    message="words",
    slot="cuda.device",
    requested="2",
    available="1",
    quota=None,
    limit=None,
    held=None,
    may_borrow=False,
    fits_kernels=None,
    blocked_by=(),
    agents=(),
    devices=(),
    until=None,
)
"""Why a session waits, without a quota."""


def test_why_explains_a_quota_by_its_limit_held_and_remaining_amounts() -> None:
    refused = msgspec.structs.replace(PLAIN, reason=Reason.QUOTA, quota="project:vision", limit="4", held="3")
    assert verdict_lines(refused, names={}) == ["quota: words", "  quota project:vision: 4 GPUs, 3 held, 1 left"]
    lent = msgspec.structs.replace(refused, may_borrow=True)
    assert verdict_lines(lent, names={})[-1] == "  submit with --preemptible to borrow idle GPUs"
    assert verdict_lines(PLAIN, names={})[1] == "  each kernel needs 2 GPUs; the agent with most has 1 free"


@pytest.mark.parametrize(
    ("order", "preempt", "words"),
    [
        ("fair_share", "preemptible", None),
        ("priority", "preemptible", "only sessions submitted with --preemptible are preempted"),
        ("priority", "any", "any session of lower priority may be preempted"),
        ("priority", "none", "no session is preempted"),
    ],
)
def test_the_preemption_note_says_which_sessions_may_be_preempted(order: str, preempt: str, words: str | None) -> None:
    policy = SimpleNamespace(order=order, preemption=SimpleNamespace(preempt=PreemptScope(preempt)))
    note = preemption_note(policy)  # type: ignore[arg-type]  # only these two are read
    assert note is None if words is None else words in (note or "")
    other = "any" if preempt == "preemptible" else "preemptible"
    assert note is None or f"`aliquot policy set preemption.preempt={other}`" in note


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("session", "create", "--cluster-size", "0", "--", "true"), "aliquot: --cluster-size: give 1 or more\n"),
        (("serve", "--port", "abc"), "aliquot: --port: give a whole number\n"),
        (("session", "create", "--nodes", "2", "--", "true"), "aliquot: No such option: --nodes"),
    ],
)
def test_an_invalid_option_gives_a_plain_error_with_a_help_hint(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(list(words), prog_name="aliquot")
    printed = capsys.readouterr()
    assert (ended.value.code, printed.out) == (2, "")
    assert printed.err.startswith(said)
    assert "--help` shows the options" in printed.err


def test_a_group_without_a_command_prints_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["quota"], prog_name="aliquot")
    printed = capsys.readouterr()
    assert "Show, set and remove quotas." in printed.out + printed.err
