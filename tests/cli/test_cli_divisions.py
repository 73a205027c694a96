"""`aliquot pools` and `aliquot projects`: lists and usage as text, as JSON, and for completion."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from aliquot.cli import main
from rest_server import RestServer

HOLDER = "of the divisions"


@pytest.fixture
def holding(demo_server: RestServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """This user holds 1.5 GPUs; commands use this server."""
    monkeypatch.setenv("ALIQUOT_SERVER", demo_server.address)
    monkeypatch.setenv("ALIQUOT_TOKEN", demo_server.token)
    with demo_server.client() as http:
        http.post("/cluster/gpu-allocate", json={"job_id": HOLDER, "gpu_count": 1.5}).raise_for_status()
        yield http.post("/graphql", json={"query": "{ me { name } }"}).json()["data"]["me"]["name"]
        http.post("/cluster/gpu-release", json={"job_id": HOLDER}).raise_for_status()


def _printed(*words: str) -> str:
    done = CliRunner().invoke(main, words)
    assert (done.exit_code, done.stderr) == (0, ""), done.output
    return done.stdout


def _json(*words: str) -> Any:
    return json.loads(_printed(*words, "--json"))


def test_pools_are_shown(holding: str) -> None:
    (pool,) = _json("pools")
    assert (pool["name"], pool["schedulable"]) == ("default", True)
    assert (len(pool["agents"]), pool["gpu_count"], pool["total_gpus"]) == (2, 16, 16.0)
    assert (pool["available_gpus"], pool["allocated_gpus"], pool["running"]) == (14.5, 1.5, 1)
    heads, line = _printed("pools").splitlines()
    assert heads.split()[:4] == ["pool", "agents", "nodes", "GPUs"]
    assert line.split()[:8] == ["default", "2", "2", "16.00", "14.50", "1.50", "1", "0"]


def test_projects_are_shown(holding: str) -> None:
    project = next(one for one in _json("projects") if one["name"] == "default")
    assert holding in project["users"]
    assert (project["allocated_gpus"], project["running"], project["quota"]) == (1.5, 1, None)
    assert "project" in _printed("projects").splitlines()[0]
    _printed("quota", "set", "project:default", "--max", "cuda.device=12")
    try:
        assert "cuda.device=12" in _printed("projects").replace(" ", "")
    finally:
        _printed("quota", "remove", "project:default")


@pytest.mark.parametrize("option", ["--pool", "--project"])
@pytest.mark.parametrize("command", ["create", "list"])
def test_completion_offers_pool_and_project_names(holding: str, command: str, option: str) -> None:
    words = ("aliquot", "session", command, option)
    line = {"COMP_WORDS": " ".join([*words, ""]), "COMP_CWORD": str(len(words)), "_ALIQUOT_COMPLETE": "complete_bash"}
    done = CliRunner().invoke(main, [], env=line, prog_name="aliquot")
    assert (done.exit_code, done.stderr) == (0, "")
    assert "default" in done.stdout.split()
