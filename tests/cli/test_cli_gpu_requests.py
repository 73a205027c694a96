"""`gpu` in requests and quotas, over the shell, REST and GraphQL; and the CPUs and memory that come with it."""

import json
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner, Result

from aliquot.cli import main
from aliquot.cli.lease import TIMED_OUT, _wait
from rest_server import RestServer

PREVIEW = """
query ($slots: [SlotAmountInput!]!) { preview_session(input: { command: { argv: ["true"] }, slots: $slots }) {
  __typename ... on SessionPreview { slots { slot amount } } ... on Error { message } } }
"""


def _run(server: RestServer, *words: str, code: int = 0) -> Result:
    environment = {"ALIQUOT_SERVER": server.address, "ALIQUOT_TOKEN": server.token, "COLUMNS": "200"}
    result = CliRunner().invoke(main, list(words), env=environment)
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def server(demo_server: RestServer) -> Iterator[RestServer]:
    """Nodes of 64 CPUs, 512 GiB and 8 GPUs, with a pool share per GPU. Restores the policy afterwards."""
    _run(demo_server, "policy", "set", 'pools=[{"name": "default", "cpu_per_gpu": 8, "mem_per_gpu": "64g"}]')
    yield demo_server
    _run(demo_server, "policy", "set", 'pools=[{"name": "default"}]')


@pytest.mark.parametrize(
    ("asked", "request_text"),
    [
        (("gpu=1",), "8 CPUs, 1 GPU, 64 GiB"),
        (("cuda=2",), "16 CPUs, 2 GPUs, 128 GiB"),
        (("gpu=0.25",), "2 CPUs, 0.25 GPU, 16 GiB"),
        (("gpu=1", "cpu=2"), "2 CPUs, 1 GPU, 64 GiB"),
        (("gpu=1", "cpu=0", "mem=0"), "1 GPU"),
        (("cpu=3",), "3 CPUs"),
    ],
)
def test_the_preview_shows_what_is_requested(asked: tuple[str, ...], request_text: str, server: RestServer) -> None:
    options = [word for one in asked for word in ("-r", one)]
    shown = _run(server, "session", "create", *options, "--preview", "--", "true")
    assert f"  request: {request_text}\n" in shown.stdout


@pytest.mark.parametrize(
    ("options", "request_text", "devices"),
    [
        (("--gpus", "2"), "16 CPUs, 2 GPUs, 128 GiB", "2 GPUs (cuda "),
        (("--gpus", "0.5"), "4 CPUs, 0.5 GPU, 32 GiB", "0.5 GPU of cuda"),
        (("--gpus", "0.5", "--cluster-size", "4"), "4 x (4 CPUs, 0.5 GPU, 32 GiB)", "0.5 GPU of cuda"),
        (("--gpus", "0.5", "--array", "0-9"), "4 CPUs, 0.5 GPU, 32 GiB\n  tasks: 10", "0.5 GPU of cuda"),
        (("--gpus", "1", "-r", "cpu=2"), "2 CPUs, 1 GPU, 64 GiB", "1 GPU of cuda"),
        (("--gpus", "1", "-r", "gpu=1"), "8 CPUs, 1 GPU, 64 GiB", "1 GPU of cuda"),
    ],
)
def test_gpus_have_an_option_of_their_own(
    options: tuple[str, ...], request_text: str, devices: str, server: RestServer
) -> None:
    shown = _run(server, "session", "create", *options, "--preview", "--", "true").stdout
    assert f"  request: {request_text}\n" in shown
    assert devices in shown


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--gpus", "2", "-r", "gpu=1"), "--gpus 2 and -r gpu=1: give one of them"),
        (("--gpus", "two"), "--gpus two: write a number, like 2 or 0.5"),
        (("--gpus", "1.2.3"), "--gpus 1.2.3: write a number, like 2 or 0.5"),
    ],
)
def test_a_wrong_number_of_gpus_is_refused(options: tuple[str, ...], message: str, server: RestServer) -> None:
    assert message in _run(server, "session", "create", *options, "--", "true", code=2).stderr


def test_cpu_and_memory_per_gpu_are_fixed_at_submission(server: RestServer) -> None:
    before = json.loads(_run(server, "session", "create", "-r", "gpu=1", "--hold", "--json", "--", "true").stdout)
    _run(server, "policy", "set", 'pools=[{"name": "default", "cpu_per_gpu": 3, "mem_per_gpu": "4g"}]')
    after = json.loads(_run(server, "session", "create", "-r", "gpu=2", "--hold", "--json", "--", "true").stdout)
    _run(server, "policy", "set", 'pools=[{"name": "default", "cpu_per_gpu": 0, "mem_per_gpu": "0"}]')
    bare = json.loads(_run(server, "session", "create", "-r", "gpu=2", "--hold", "--json", "--", "true").stdout)
    held = [json.loads(_run(server, "session", "show", one["id"], "--json").stdout) for one in (before, after, bare)]
    assert [{one["slot"]: one["amount"] for one in session["slots"]} for session in held] == [
        {"cpu": "8", "cuda.device": "1", "mem": "64g"},
        {"cpu": "6", "cuda.device": "2", "mem": "8g"},
        {"cuda.device": "2"},
    ]
    _run(server, "session", "cancel", *(one["id"] for one in held))


def test_rest_and_graphql_read_the_same_request(server: RestServer) -> None:
    with server.client() as http:
        asked = [{"slot": "gpu", "amount": "0.5"}]
        shown = http.post("/graphql", json={"query": PREVIEW, "variables": {"slots": asked}}).json()
        job = http.post("/queue/submit", json={"command": "true", "gpu_count": 0.5}).json()
        http.delete(f"/queue/{job['job_id']}")
    slots = {"cpu": "4", "cuda.shares": "0.50", "mem": "32g"}
    assert {one["slot"]: one["amount"] for one in shown["data"]["preview_session"]["slots"]} == slots
    assert {one["slot"]: one["amount"] for one in job["slots"]} == slots


def test_an_external_allocation_holds_only_gpus(server: RestServer) -> None:
    with server.client() as http:
        taken = http.post("/cluster/gpu-allocate", json={"job_id": "notebook", "gpu_count": 1}).json()
        session = http.get("/sessions", params={"run_id": "notebook"}).json()["jobs"][0]
        http.post("/cluster/gpu-release", json={"job_id": "notebook"})
    assert len(taken["gpu_ids"]) == 1
    assert [one["slot"] for one in session["slots"]] == ["cuda.device"]


@pytest.mark.parametrize(
    ("asked", "meant"), [("gpus=1", "gpu"), ("memory=3g", "mem"), ("cuda.devices=1", "cuda.device")]
)
def test_an_unknown_slot_is_refused_with_a_suggestion(asked: str, meant: str, server: RestServer) -> None:
    refused = _run(server, "session", "create", "-r", asked, "--", "true", code=3)
    assert f"no agent has slot {asked.partition('=')[0]}; known slots: cpu" in refused.output
    assert f"Did you mean {meant}?" in refused.output


def test_a_gpu_quota_is_set_and_removed(server: RestServer) -> None:
    assert _run(server, "quota", "set", "user:gil", "--max", "gpu=1").stdout == "user:gil  --max cuda.device=1\n"
    assert "--max cuda.shares=0.50" in _run(server, "quota", "set", "user:gil", "--max", "gpu=0.5").stdout
    lifted = _run(server, "quota", "set", "user:gil", "--max", "gpu=none", "--max-queued", "5")
    assert lifted.stdout == "user:gil  --max-queued 5\n"
    _run(server, "quota", "remove", "user:gil")


def test_a_lease_with_a_time_limit_names_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("aliquot.cli.lease.time.sleep", lambda _: None)
    monkeypatch.setattr("aliquot.cli.lease.signal.signal", lambda *_: None)
    assert _wait(["GPU-1"], limit_s=7200.0) == TIMED_OUT
    assert capsys.readouterr().err == "aliquot: held until Ctrl-C, at most 2 h\n"
