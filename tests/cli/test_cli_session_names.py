"""Naming sessions on the command line, in every command that takes one."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from aliquot.cli import main
from rest_server import RestServer, rest_server


@dataclass(frozen=True)
class NamedSessions:
    """A server that starts nothing, with sessions `solo`, two named `twin`, and `sweep_1`, an array of five."""

    server: RestServer
    ids: dict[str, str]

    def run(self, *words: str, code: int = 0) -> Result:
        environment = {"ALIQUOT_SERVER": self.server.address, "ALIQUOT_TOKEN": self.server.token, "COLUMNS": "200"}
        result = CliRunner().invoke(main, ["session", *words], env=environment)
        assert result.exit_code == code, result.output
        return result

    def shown(self, text: str) -> str:
        found: str = json.loads(self.run("show", text, "--json").stdout)["id"]
        return found


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NamedSessions]:
    with rest_server(tmp_path_factory.mktemp("names"), "--stopped") as server:
        made = NamedSessions(server=server, ids={})
        for key, name, more in (
            ("one", "twin", ()), ("two", "twin", ()), ("sweep", "sweep_1", ("--array", "0-4")), ("solo", "solo", ()),
        ):  # fmt: skip
            made.ids[key] = made.run("create", "--name", name, *more, "--", "true").stdout.strip()
        yield made


def test_a_session_is_found_by_name_by_partial_id_and_by_last(scene: NamedSessions) -> None:
    solo = scene.ids["solo"]
    for text in ("solo", solo, solo[-6:], f"…{solo[-6:]}", solo[:33], solo[4:33], "@last"):
        assert scene.shown(text) == solo
    assert scene.shown("sweep_1") == scene.ids["sweep"]


@pytest.mark.parametrize("command", ["show", "why", "logs", "wait", "cancel", "hold", "release", "retry"])
def test_an_ambiguous_session_name_is_refused_with_the_candidates(command: str, scene: NamedSessions) -> None:
    refused = scene.run(command, "twin", code=2)
    assert "twin names 2 sessions; give more of the id:" in refused.output
    assert all(f"{scene.ids[key]}  twin  " in refused.output for key in ("one", "two"))
    assert all(scene.shown(scene.ids[key]) == scene.ids[key] for key in ("one", "two"))


@pytest.mark.parametrize("command", ["show", "why", "logs", "wait", "cancel", "hold", "release", "retry"])
def test_an_unknown_session_name_is_refused_with_the_accepted_forms(command: str, scene: NamedSessions) -> None:
    refused = scene.run(command, "nothing", code=3)
    assert "there is no session nothing; give a name, the beginning or the end of an id, @last, or" in refused.output


def test_changes_of_several_sessions_by_name_apply_to_all_or_none(scene: NamedSessions) -> None:
    assert scene.run("hold", "solo").stdout == f"{scene.ids['solo']}  held\n"
    refused = scene.run("release", "solo", "twin", code=2)
    assert json.loads(scene.run("show", "solo", "--json").stdout)["state"] == "held", refused.output
    assert scene.run("release", scene.ids["solo"][-6:]).stdout == f"{scene.ids['solo']}  queued\n"


def test_a_task_is_named_by_its_array_and_its_index(scene: NamedSessions) -> None:
    for text in ("sweep_1_3", f"{scene.ids['sweep'][-6:]}_1"):
        scene.run("cancel", text)
    tasks = json.loads(scene.run("show", "sweep_1", "--json").stdout)["tasks"]
    assert (tasks["canceled"]["indices"], tasks["waiting"]["indices"]) == ("1,3", "0,2,4")
    listed = scene.run("list", "--array", "sweep_1", "--all")
    assert "no sessions" in listed.stdout


@pytest.mark.parametrize("option", ["--after", "--after-any", "--after-failed"])
def test_dependencies_can_be_given_by_session_name(option: str, scene: NamedSessions, tmp_path: Path) -> None:
    made = json.loads(scene.run("create", option, "solo", "--name", "next", "--json", "--", "true").stdout)
    assert [link["session_id"] for link in made["depends_on"]] == [scene.ids["solo"]]
    scene.run("cancel", made["id"])
    assert "twin names 2 sessions" in scene.run("create", option, "twin", "--", "true", code=2).output
    script = tmp_path / "job.sh"
    script.write_text(f"#!/bin/sh\n#ALIQUOT {option}=solo\ntrue\n")
    by_script = json.loads(scene.run("create", "--json", str(script)).stdout)
    assert [link["session_id"] for link in by_script["depends_on"]] == [scene.ids["solo"]]
    scene.run("cancel", by_script["id"])


def test_a_task_that_waits_is_shown_by_its_array(scene: NamedSessions) -> None:
    array = scene.run("create", "--name", "grid", "--array", "0-4", "--", "true").stdout.strip()
    for text in ("grid_3", f"{array}_3"):
        found = scene.run("show", text)
        assert "task 3 of grid has not started; it waits with its array:" in found.stderr
        assert f"session      {array}" in found.stdout
        assert "has not started" in scene.run("why", text).stderr
    assert "there is no session" in scene.run("show", "grid_5", code=3).output
    assert scene.run("cancel", "grid_3").stdout == f"{array}  queued\n"
    assert "there is no session" in scene.run("show", "grid_3", code=3).output


def test_a_session_waits_for_the_open_sessions_of_its_own_name(scene: NamedSessions) -> None:
    """`singleton` in Slurm."""

    def waits_for(*words: str) -> set[str]:
        id = scene.run("create", *words, "--hold", "--after-any", "@same-name", "--", "true").stdout.strip()
        found = json.loads(scene.run("show", id, "--json").stdout)["depends_on"]
        scene.run("cancel", id)
        return {one["session_id"] for one in found}

    assert waits_for("--name", "sweep_1") == {scene.ids["sweep"]}
    assert waits_for("--name", "first of its name") == set()
    assert "give one with --name" in scene.run("create", "--after-any", "@same-name", "--", "true", code=2).output


def test_sessions_named_after_one_that_is_refused_are_changed_too(scene: NamedSessions) -> None:
    first, last = (scene.run("create", "--name", "spare", "--", "true").stdout.strip() for _ in range(2))
    scene.run("cancel", last)
    done = scene.run("retry", first, last, code=3)
    assert done.stdout.splitlines() == [f"{last}  queued"]
    assert f"{first} is queued; only ended sessions can be retried" in done.stderr
    assert scene.run("cancel", first, last).stdout.splitlines() == [f"{first}  canceled", f"{last}  canceled"]


@pytest.mark.parametrize("command", ["open", "environment"])
def test_a_task_that_waits_in_its_array_is_no_session_yet(command: str, scene: NamedSessions) -> None:
    refused = scene.run(command, f"{scene.ids['sweep']}_3", code=3)
    assert refused.stderr.startswith(f"aliquot: there is no session {scene.ids['sweep']}_3\n")
