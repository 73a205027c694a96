"""The commands over the database of a server that was stopped."""

import asyncio
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from aliquot.cli import main
from ledger_course import course_on
from store_places import Place

ENTRIES = 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder that something has happened in."""

    async def happen() -> None:
        async with course_on(Place("", found)) as (course, running):
            await course.until_written(running.ledger, ENTRIES)

    found = tmp_path_factory.mktemp("data")
    asyncio.run(happen())
    return found


def aliquot(*arguments: str, folder: Path) -> Result:
    return CliRunner().invoke(main, [*arguments, "--data-folder", str(folder)])


def test_the_last_passes_replay_without_a_difference(folder: Path) -> None:
    outcome = aliquot("replay", "--last", "20", folder=folder)
    assert outcome.exit_code == 0, outcome.output
    assert outcome.stdout.startswith("20 passes, ")
    assert outcome.stdout.endswith(", 0 differences\n")


def test_one_pass_is_found_by_its_number(folder: Path) -> None:
    told = json.loads(aliquot("replay", "--last", "1", "--json", folder=folder).stdout)
    again = aliquot("replay", str(told[0]["pass"]), "--json", folder=folder)
    assert json.loads(again.stdout) == told


def test_another_policy_is_another_decision(folder: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("order: sjf\n")
    outcome = aliquot("replay", "--last", "40", "--policy", str(policy), folder=folder)
    assert outcome.exit_code == 1
    assert " verdicts " in outcome.stdout or " placements " in outcome.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["replay"], "name either the number of a pass, or --last N"),
        (["replay", "999999"], "no pass from 999999 to 999999 decided anything"),
        (["replay", "0"], "the ledger does not reach back to pass 0"),
        (["audit", "device", "a-gpu-0", "--at", "yesterday"], "Invalid isoformat string"),
    ],
)
def test_mistakes_are_told(folder: Path, arguments: list[str], words: str) -> None:
    outcome = aliquot(*arguments, folder=folder)
    assert outcome.exit_code == 2
    assert words in outcome.stderr


def test_a_folder_without_a_database_is_told_of_and_stays_empty(tmp_path: Path) -> None:
    outcome = aliquot("audit", "verify", folder=tmp_path)
    assert outcome.exit_code == 2
    assert "there is no such file" in outcome.stderr
    assert list(tmp_path.iterdir()) == []


def test_who_held_a_device(folder: Path) -> None:
    ever = ["--since", "2000-01-01", "--until", "2100-01-01", "--json"]
    held = json.loads(aliquot("audit", "device", "a-gpu-0", *ever, folder=folder).stdout)
    assert {one["device_id"] for one in held} == {"a-gpu-0"}
    assert all(one["pass_number"] and one["session_id"] for one in held)
    assert aliquot("audit", "device", "a-gpu-0", "--at", "2000-01-01", folder=folder).stdout == "nobody held a-gpu-0\n"


def test_the_log_tells_who_did_what(folder: Path) -> None:
    told = aliquot("audit", "log", "--people", "--kind", "policy", "--last", "5", folder=folder).stdout
    assert "root (req_root)  policy.changed" in told
    assert "hunter2" not in aliquot("audit", "log", "--last", "10000", folder=folder).stdout


def test_the_chains_are_whole(folder: Path) -> None:
    outcome = aliquot("audit", "verify", folder=folder)
    assert outcome.exit_code == 0
    assert outcome.stdout.startswith("whole: ")
