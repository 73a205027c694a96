"""Scenario files: those of this project pass; errors name their place; failures are detected."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from aliquot.cli import main
from aliquot.core.policy_tests.loader import scenarios
from aliquot.core.policy_tests.outcome import differences
from aliquot.core.policy_tests.scenario import Scenario
from aliquot_schema.errors import InvalidRequest

FOLDER = Path(__file__).parents[1] / "data" / "scenarios"
FILES = sorted(FOLDER.glob("*.yaml"))
ALL = [found for file in FILES for found in scenarios(file.read_text(encoding="utf-8"), file=file.name)]

GIVEN = """given:
  agents:
    - {name: a, gpus: 2}
  running:
    - {name: runs, gpus: 1, ends-in: 1h}
  queue:
    - {name: one, gpus: 1}
    - {name: two, gpus: 2}
"""


def one(text: str) -> Scenario:
    (found,) = scenarios(text, file="mine.yaml")
    return found


def test_old_preemption_keys_are_accepted_with_a_deprecation_warning(tmp_path: Path) -> None:
    text = (FOLDER / "rights.yaml").read_text(encoding="utf-8")
    (tmp_path / "old.yaml").write_text(text.replace("preempt: preemptible", "victims: willing"))
    assert text.count("preempt: preemptible") > 1
    done = CliRunner().invoke(main, ["policy", "test", str(tmp_path / "old.yaml")])
    assert done.exit_code == 0, done.output
    line = 1 + text[: text.index("preempt: preemptible")].count("\n")
    assert f"warning: {tmp_path}/old.yaml:{line}: preemption.victims=willing is deprecated" in done.stderr


def test_the_project_has_at_least_twelve_scenarios() -> None:
    assert len(ALL) >= 12


@pytest.mark.parametrize("scenario", ALL, ids=[f"{found.file}:{found.line}" for found in ALL])
def test_the_scenarios_of_this_project_hold(scenario: Scenario) -> None:
    assert differences(scenario) == ()


@pytest.mark.parametrize(
    ("then", "what", "expected", "found"),
    [
        ("starts: [two]", "starts", "two", "one"),
        ("starts: []", "starts", "-", "one"),
        ("waits: {one: quota}", "waits.one", "quota", "started"),
        ("waits: {two: quota}", "waits.two", "quota", "insufficient"),
        ("reserved: {two: 7h}", "reserved.two", "7h", "1h"),
        ("reserved: {one: 7h}", "reserved.one", "7h", "started"),
        ("on: {two: a}", "on.two", "a", "waits: insufficient"),
        ("order: [two, one]", "order", "two, one", "one, two"),
        ("preempts: [runs]", "preempts", "runs", "-"),
        ("fails: [one]", "fails", "one", "-"),
    ],
)
def test_a_failed_scenario_gives_the_expected_and_the_actual_result(
    then: str, what: str, expected: str, found: str
) -> None:
    text = GIVEN.replace("{name: one, gpus: 1}", "{name: one, gpus: 1, limit: 30m}") + f"then: {{{then}}}"
    (difference,) = differences(one(text))
    assert (difference.what, difference.expected, difference.found) == (what, expected, found)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "mine.yaml:"),
        ("", "mine.yaml:1: there is no scenario"),
        (GIVEN, "`then` is missing"),
        (GIVEN + "then: {start: [one]}", "mine.yaml:9: then.start: unknown key; use one of fails, on, order"),
        (GIVEN + "then: {starts: [three]}", "mine.yaml:9: then.starts: 'three' is unknown; use one of one, runs, two"),
        (GIVEN + "then: {waits: {one: boredom}}", "'boredom' is unknown; use one of array_limit"),
        (GIVEN + "then: {}", "nothing is expected"),
        (GIVEN + "when: soon\nthen: {starts: []}", "'soon' is unknown; use one of pass"),
        (GIVEN + "when: {after: soon}\nthen: {starts: []}", "'soon' is not a duration"),
        (GIVEN.replace("gpus: 2}", "gpus: many}", 1) + "then: {starts: []}", "mine.yaml:3: given.agents.gpus: 'many'"),
        (GIVEN.replace("one, gpus", "one, gpu") + "then: {starts: []}", "the request is empty"),
        (GIVEN.replace("one", "two") + "then: {starts: []}", "there are two sessions two"),
        (GIVEN.replace("ends-in: 1h", "on: z") + "then: {starts: []}", "agent 'z' is unknown; use one of a"),
        (GIVEN.replace("given:", "given:\n  policy: {order: chess}") + "then: {starts: []}", "fair_share, fcfs"),
        (
            GIVEN.replace("given:", "given:\n  policy: {weights: {age: 0}}") + "then: {starts: []}",
            "mine.yaml:2: given.policy: weights.age: 0 is not between 1 and 1000",
        ),
    ],
)
def test_an_error_in_a_scenario_file_is_reported_with_its_line(text: str, message: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        scenarios(text, file="mine.yaml")
    assert message in refusal.value.message


def test_a_running_session_that_does_not_fit_its_scenario_is_refused() -> None:
    text = GIVEN.replace("{name: runs, gpus: 1", "{name: runs, gpus: 3") + "then: {starts: []}"
    with pytest.raises(InvalidRequest, match=r"mine.yaml:1: given.running: runs does not fit"):
        differences(one(text))


def test_the_command_prints_a_line_for_each_scenario_and_its_differences(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(f"name: mine\n{GIVEN}then: {{starts: [two]}}\n---\n{GIVEN}then: {{starts: [one]}}\n")
    ran = CliRunner().invoke(main, ["policy", "test", str(file)])
    assert ran.exit_code == 1
    words = ran.stdout.split()
    assert words.count("FAIL") == words.count("ok") == 1
    assert "1 passed, 1 failed" in ran.stdout


def test_the_command_prints_json(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(f"name: mine\n{GIVEN}then: {{starts: [two]}}\n")
    ran = CliRunner().invoke(main, ["policy", "test", "--json", str(file)])
    assert ran.exit_code == 1
    (outcome,) = json.loads(ran.stdout)
    assert outcome["differences"] == [{"what": "starts", "expected": "two", "found": "one"}]
    assert (outcome["name"], outcome["line"], outcome["passed"]) == ("mine", 1, False)


def test_the_command_passes_the_project_scenarios_and_refuses_a_missing_file(tmp_path: Path) -> None:
    assert CliRunner().invoke(main, ["policy", "test", *map(str, FILES)]).exit_code == 0
    missing = CliRunner().invoke(main, ["policy", "test", str(tmp_path / "none.yaml")])
    assert missing.exit_code == 2
    assert "cannot be read" in missing.stderr
