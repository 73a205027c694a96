"""The reports of `session create` and `policy set`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from typer.testing import CliRunner

from aliquot.cli import main
from aliquot.cli.cluster.policy import differences
from aliquot.cli.session.show import kernel_lines
from aliquot.cli.session.submit import report_standing, standing_text
from aliquot.client import BlockingClient
from aliquot.client.generated.agents import Agent, Kernel
from aliquot.client.generated.enums import AgentState, SessionState
from aliquot.client.generated.pages import SessionConnection
from aliquot.client.generated.policy import Policy
from aliquot.client.generated.sessions import ArrayTasks, Session, SessionFilter, TaskSet, Verdict
from cli_tables import filled, session_id
from rest_server import RestServer

ID, AHEAD = session_id(1), session_id(2)


@pytest.fixture
def server(demo_server: RestServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[RestServer]:
    """The default server, with all 16 GPUs held."""
    monkeypatch.setenv("ALIQUOT_SERVER", demo_server.address)
    monkeypatch.setenv("ALIQUOT_TOKEN", demo_server.token)
    jobs = ("report-1", "report-2")
    with demo_server.client() as http:
        for job in jobs:
            http.post("/cluster/gpu-allocate", json={"job_id": job, "gpu_count": 8}).raise_for_status()
        try:
            yield demo_server
        finally:
            for job in jobs:
                http.post("/cluster/gpu-release", json={"job_id": job}).raise_for_status()


def _run(*words: str) -> Any:
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    return done


def test_a_waiting_submission_prints_its_position_and_reason(server: RestServer) -> None:
    done = _run("session", "create", "-r", "cuda.device=1", "--", "true")
    id = done.stdout.strip()
    try:
        report, advice = done.stderr.splitlines()
        assert report.startswith("aliquot: waiting, position 1: Each kernel needs 1 GPU")
        assert advice.strip() == f"`aliquot session logs -f {id}` follows it"
    finally:
        _run("session", "cancel", id)


def test_a_held_submission_prints_the_release_command(server: RestServer) -> None:
    done = _run("session", "create", "--hold", "--", "true")
    id = done.stdout.strip()
    _run("session", "cancel", id)
    assert done.stderr == f"aliquot: held\n         `aliquot session release {id}` lets it start\n"


def test_a_held_submission_with_json_prints_json_and_the_same_state(server: RestServer) -> None:
    done = _run("session", "create", "--hold", "--json", "--", "true")
    assert done.stdout.count("\n") == 1
    assert done.stderr.startswith("aliquot: held\n")
    _run("session", "cancel", done.stdout.split('"id":"')[1].split('"')[0])


def test_policy_set_prints_the_changed_fields(server: RestServer) -> None:
    before = _run("policy", "show").stdout.splitlines()
    assert "weights.fair=1" in before
    assert _run("policy", "set", "weights.fair=3", "backfill_depth=100").stdout == "weights.fair: 1 -> 3\n"
    assert _run("policy", "set", "weights.fair=3").stdout == "nothing changed: the policy was like this already\n"
    assert _run("policy", "set", "weights.fair=1").stdout == "weights.fair: 3 -> 1\n"


def test_changes_beside_a_policy_file_keep_the_other_fields_of_the_file(server: RestServer, tmp_path: Path) -> None:
    document = json.loads(_run("policy", "show", "--json").stdout)
    document["weights"]["short"] = 5
    (tmp_path / "policy.json").write_text(json.dumps(document))
    changed = _run("policy", "set", "--file", str(tmp_path / "policy.json"), "weights.fair=3", "preemption.preempt=any")
    lines = changed.stdout.splitlines()
    assert {line.partition(":")[0] for line in lines} == {"weights.fair", "weights.short", "preemption.preempt"}
    _run("policy", "set", *(line.replace(": ", "=").partition(" -> ")[0] for line in lines))


def test_policy_differences_include_fields_that_are_set_or_unset() -> None:
    before, after = filled(Policy, version=1), filled(Policy, version=2, order="priority", allow_fragmentation=True)
    assert differences(before, after) == [
        f"order: {before.order} -> priority",
        "allow_fragmentation: false -> true",
    ]
    assert differences(before, before) == []


@pytest.mark.parametrize(
    ("known", "text"),
    [
        ({"state": SessionState.QUEUED}, "waiting, not considered by the scheduler yet"),
        (
            {
                "state": SessionState.QUEUED,
                "queue_position": 4,
                "waits": filled(Verdict, message=f"Waits behind {AHEAD}, which is next in the queue."),
            },
            "waiting, position 4: Waits behind big, which is next in the queue",
        ),
        (
            {
                "state": SessionState.RUNNING,
                "kernels": tuple(filled(Kernel, agent_id=id) for id in ("gpu01", "gpu01", "gpu02")),
            },
            "running on gpu01, gpu02",
        ),
        ({"state": SessionState.SCHEDULED}, "starting"),
        ({"state": SessionState.FAILED, "exit_code": 3}, f"{ID}: failed with exit code 3"),
    ],
)
def test_the_state_of_a_submission_is_described(known: dict[str, Any], text: str) -> None:
    assert standing_text(filled(Session, id=ID, **known), names={AHEAD: "big"}) == text


def test_a_preempted_task_that_waits_is_not_counted_as_running(capsys: pytest.CaptureFixture[str]) -> None:
    tasks = filled(ArrayTasks, active=filled(TaskSet, count=3))
    waiting = filled(Session, id=ID, state=SessionState.QUEUED, tasks=tasks, waits=filled(Verdict, message="Waits."))
    asked: list[Any] = []

    class Client:
        def sessions(self, *, first: int, filter: SessionFilter) -> Any:
            asked.append((filter.array_id, {str(state) for state in filter.states or ()}))
            return filled(SessionConnection, total_count=2)

        def get_session(self, id: str) -> Session:
            return waiting

    report_standing(cast("BlockingClient", Client()), waiting)
    assert capsys.readouterr().err.startswith("aliquot: waiting, 2 of its tasks running: Waits")
    assert asked == [(ID, {"scheduled", "allocating", "running", "preempting"})]


def test_a_kernel_on_a_lost_agent_is_marked() -> None:
    agents = [filled(Agent, id=name, state=state) for name, state in (("a", AgentState.ALIVE), ("b", AgentState.LOST))]
    kernels = tuple(filled(Kernel, rank=rank, state="running", agent_id=name) for rank, name in enumerate("ab"))
    lines = list(kernel_lines(filled(Session, kernels=kernels), agents))
    assert [line.split(":")[0] for line in lines] == [
        "rank 0       running on a",
        "rank 1       running on b (agent lost; its processes may still run)",
    ]


def test_an_unreachable_server_after_a_submission_is_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    with BlockingClient("http://127.0.0.1:9", "none") as client:
        report_standing(client, filled(Session, id=ID, state=SessionState.QUEUED))
    assert capsys.readouterr().err.startswith("aliquot: submitted; its state could not be read: http://127.0.0.1:9")


def test_options_after_a_script_go_to_the_script_with_a_note(server: RestServer, tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.write_text("#ALIQUOT --hold\necho $1\n", encoding="utf-8")
    for given, notes in ((("--follow", "7"), ["--follow"]), (("--lr", "7"), [])):
        done = _run("session", "create", str(script), *given)
        _run("session", "cancel", done.stdout.strip())
        said = [line for line in done.stderr.splitlines() if line.startswith("aliquot: train.sh: ")]
        assert [line.split()[2] for line in said] == notes
        assert all("options of aliquot are before the script" in line for line in said)
