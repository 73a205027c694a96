"""`aliquot audit` asks a running server; without one it reads the database."""

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from aliquot.cli import main
from rest_server import RestServer, rest_server

AGENTS = "{ agents(first: 9) { edges { node { id devices { id name } } } } }"


def _run(*words: str, code: int = 0, **variables: str) -> Result:
    hidden = {name: None for name in os.environ if name.startswith(("ALIQUOT_", "XDG_"))}
    result = CliRunner().invoke(main, ["audit", *words], env={**hidden, "COLUMNS": "200", **variables})
    assert result.exit_code == code, result.output
    return result


@pytest.mark.parametrize("named", [True, False])
def test_the_audit_command_asks_a_running_server(named: bool, tmp_path: Path) -> None:
    with rest_server(tmp_path) as server:
        place = ("--server", server.address) if named else ()
        variables = {"ALIQUOT_TOKEN": server.token} | ({} if named else {"ALIQUOT_SERVER": server.address})
        taken = _allocate(server)
        (device,) = taken["gpu_ids"]
        people = json.loads(_run("log", "--people", "--json", *place, **variables).stdout)
        assert taken["session_id"] in {change["entity_id"] for change in people}
        lines = _run("log", "--entity", taken["session_id"], *place, **variables).stdout
        assert "session.queued" in lines
        held = _run("device", device, *place, **variables).stdout
        assert held.endswith(f"session {taken['session_id']}  1 GPU, pass {held.rpartition(' ')[2]}")
        with server.client() as http:
            agents = [
                edge["node"] for edge in http.post("/graphql", json={"query": AGENTS}).json()["data"]["agents"]["edges"]
            ]
        names = {one["id"]: f"{agent['id']}/{one['name']}" for agent in agents for one in agent["devices"]}
        assert _run("device", names[device], *place, **variables).stdout == held
        unknown = _run("device", "nosuch", *place, code=3, **variables)
        assert "no agent has the device nosuch" in unknown.output
        before = _run("device", device, "--at", "2000-01-01", *place, **variables).stdout
        assert before == f"{device} was not held then\n"
        assert _run("device", device, "--since", "2000-01-01", *place, **variables).stdout == held
        with server.client() as http:
            http.post("/cluster/gpu-release", json={"job_id": "audited"}).raise_for_status()
        free = _run("device", device, *place, **variables).stdout
        assert free == f"{device} is not held now; --at and --since show past holders\n"
        period = json.loads(_run("device", device, "--until", "2000-01-01", "--json", *place, **variables).stdout)
        assert period == []
        refused = _run("device", device, "--since", "2000-01-01", "--at", "2000-01-01", *place, code=2, **variables)
        assert "--at asks for one time, --since and --until for a period" in refused.output
        assert _run("verify", *place, **variables).stdout.startswith("intact: ")
        verified = json.loads(_run("verify", "--json", *place, **variables).stdout)
        assert (verified["faults"], verified["holdings"]) == ([], 1)
        assert verified["events"] > 0
        wrong = _run("log", "--since", "yesterday", *place, code=2, **variables)
        assert "--since yesterday: give a time like 2026-03-01T12:00:00Z" in wrong.output
        in_use = _run("log", "--data-folder", str(tmp_path), code=2)
        assert "To read this one meanwhile, use a copy made by `aliquot db copy`" in in_use.output
    read = json.loads(_run("log", "--people", "--json", "--data-folder", str(tmp_path)).stdout)
    assert taken["session_id"] in {change["entity_id"] for change in read}
    held = _run("device", taken["gpu_ids"][0], "--since", "2000-01-01", "--data-folder", str(tmp_path)).stdout
    assert f"session {taken['session_id']}  1 GPU, pass " in held


def _allocate(server: RestServer) -> dict[str, list[str]]:
    with server.client() as http:
        found: dict[str, list[str]] = http.post("/cluster/gpu-allocate", json={"job_id": "audited"}).json()
    return found
