"""A data folder of commit 9f0fe7e with live jobs: it opens, its shims are adopted, and nothing is missing.

`old_folder_recorder` says how the folder was recorded. Its jobs are started again by the recorded spawner of that
commit, so that files, locks and signals are those of the old shim.
"""

import asyncio
import json
import marshal
import os
import subprocess
import sys
import tarfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from aliquot.cli.acceptance.checks import live_kernels
from aliquot.cli.acceptance.processes import OwnServer
from aliquot.cli.acceptance.run import CANCEL
from aliquot.client import Client
from aliquot.service.ledger.entries import code_version
from e2e_sessions import alloc_map, output_of, submit, until, until_state

pytestmark = pytest.mark.anyio

RECORDED = Path(__file__).parents[1] / "data" / "data_folder_9f0fe7e.tar.xz"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
FOREVER = ("sessions", "events", "ledger", "findings", "logs", "results", "readings", "minutes", "hours")
START_S_MAX = 60.0
RECORDS = """
query {
  users { name role disabled projects }
  quotas { scope name weight max_slots { slot amount } own_slots { slot amount } }
  policy { weights { age } half_life preemption { victims } }
  notice_rules { rule threshold }
  changed: audit(filter: { kind: "policy.changed" }) { edges { node { fields { name } } } }
  disabled: audit(filter: { kind: "user.disabled" }) { edges { node { entity_id } } }
  ledger_passes(first: 100) { edges { node { number code_version } } }
}
"""
HISTORY = """
query ($since: DateTime!, $until: DateTime!) {
  device_history(agent_id: "demo-1", since: $since, until: $until) { series { metric values } }
}
"""
NEWCOMER = 12
"""Exit code of a session of this version."""


class OldShims:
    """The recorded running kernels, each with a shim of the recorded commit."""

    def __init__(self, folder: Path, *, sessions: list[str]) -> None:
        kernels = folder / "data" / "agents" / "demo-1" / "kernels"
        self._folders = [kernels / f"{session_id}.1.0" for session_id in sessions]
        self._spawner = folder / "spawner"

    def start(self) -> None:
        """Start the old spawner, have it start the shims, and end it: shims remain."""
        requests = [self._request(folder) for folder in self._folders]
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-E", str(self._spawner)],
            input=b"".join(len(body).to_bytes(4, "little") + body for body in requests),
            stdout=subprocess.PIPE,
            env={},
            cwd="/",
            timeout=START_S_MAX,
            check=True,
        )
        outcomes = sorted(line.split()[:2] for line in done.stdout.decode().splitlines())
        assert outcomes == sorted(["started", folder.name] for folder in self._folders)

    def go_on(self, session_id: str) -> None:
        """Let a job end."""
        (folder,) = (folder for folder in self._folders if folder.name.startswith(session_id))
        (folder / "work" / "go-on").touch()

    def whole_gpus(self) -> set[str]:
        """Devices held whole by the jobs, from the old agent's files."""
        specs = [json.loads((folder / "resource.json").read_text())["slots"] for folder in self._folders]
        return {device for slots in specs for device in slots.get("cuda.device", {})}

    @staticmethod
    def _request(folder: Path) -> bytes:
        """The request as the old agent sent it, with this boot's id: another boot would end the kernel."""
        file = folder / "order.json"
        stored = json.loads(file.read_text())
        boot_id = stored["boot_id"] = BOOT_ID.read_text().strip()
        file.write_text(json.dumps(stored))
        order = stored["order"]
        environment = {
            **order["environment"],
            "PATH": os.environ["PATH"],
            "ALIQUOT_KERNEL_ID": folder.name,
            "ALIQUOT_RESOURCE_FILE": str(folder / "resource.json"),
        }
        fields = {
            "kernel_id": folder.name,
            "folder": str(folder),
            "boot_id": boot_id,
            "argv": [os.fsencode(word) for word in order["argv"]],
            "environment": {os.fsencode(name): os.fsencode(text) for name, text in environment.items()},
            "working_directory": os.fsencode(folder / "work"),
            "user": None,
            "limits": [],
            "group": None,
            "gates": [],
            "limit_groups": [],
            "sandbox": None,
            "secret_files": None,
            "time_limit_ms": order["time_limit_ms"],
            "grace_ms": order["grace_ms"],
            "not_after_us": None,
            "pause_at": None,
        }
        return marshal.dumps(fields, 2)


@dataclass(frozen=True)
class OldCluster:
    """The recorded folder, its facts, and its jobs."""

    server: OwnServer
    facts: dict[str, Any]
    shims: OldShims

    def jobs(self) -> dict[str, int]:
        """Pids of the live jobs by kernel."""
        return {name: live.pid for name, live in live_kernels(self.server.data_folder).items()}


@pytest.fixture
async def old() -> AsyncIterator[OldCluster]:
    """A copy of the folder, its jobs running under old shims; the server is not started."""
    server = OwnServer("--demo", *(word for kind in FOREVER for word in ("--keep", f"{kind}=forever")))
    with tarfile.open(RECORDED) as archive:
        # The first releases of Python 3.11 have no filters.
        archive.extractall(server.folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    facts = json.loads((server.folder / "recorded.json").read_text())
    cluster = OldCluster(server, facts, OldShims(server.folder, sessions=[*facts["running"], facts["shared"]]))
    cluster.shims.start()
    yield cluster
    await server.__aexit__(None, None, None)


async def test_running_jobs_of_the_old_version_are_adopted_and_end_as_they_would_have(old: OldCluster) -> None:
    before = await until(lambda: _all_live(old))
    await old.server.start()
    async with old.server.client() as client:
        for session_id in (*old.facts["running"], old.facts["shared"]):
            assert (await until_state(client, session_id, "running"))["attempt"] == 1
        fresh = await submit(client, f"exit {NEWCOMER}", {"cuda.device": "1"})
        assert (await until_state(client, fresh, "failed"))["exit_code"] == NEWCOMER
        whole = old.shims.whole_gpus()
        held = await alloc_map(client, "demo-1")
        assert {device: held.get(device) for device in whole} == dict.fromkeys(whole, "1.00")
        assert old.jobs() == before
        await client.change(CANCEL, {"id": old.facts["shared"]})
        await until_state(client, old.facts["shared"], "canceled")
        assert (await until_state(client, old.facts["waiting"], "queued"))["attempt"] == 0
        for session_id, code in old.facts["running"].items():
            old.shims.go_on(session_id)
            ended = await until_state(client, session_id, "completed", "failed")
            assert (ended["exit_code"], ended["attempt"]) == (code, 1)
            assert (await output_of(client, session_id)).startswith("began\n")
        assert (await until_state(client, old.facts["waiting"], "failed"))["exit_code"] == 5
        assert old.jobs() == {}
    assert await old.server.stop() == 0


async def test_records_of_the_old_version_are_all_there(old: OldCluster) -> None:
    await old.server.start()
    async with old.server.client() as client:
        await _check_sessions(client, old.facts)
        found = await client.execute(RECORDS)
        assert {"name": "ben", "role": "operator", "disabled": True, "projects": []} in found["users"]
        assert {"name": "ann", "role": "user", "disabled": False, "projects": ["vision"]} in found["users"]
        assert found["quotas"] == [
            {
                "scope": "project",
                "name": "vision",
                "weight": 3,
                "max_slots": [{"slot": "cuda.device", "amount": "8"}],
                "own_slots": [{"slot": "cuda.device", "amount": "4"}],
            }
        ]
        assert found["policy"] == {"weights": {"age": 2}, "half_life": 259200, "preemption": {"victims": "nobody"}}
        assert {"rule": "queue_backlog", "threshold": 77} in found["notice_rules"]
        assert {"name": "half_life_ms"} in found["changed"]["edges"][0]["node"]["fields"]
        assert found["disabled"]["edges"] == [{"node": {"entity_id": "ben"}}]
        assert await _held_gpus(client, old.facts) > 0
    await _check_key_and_secret(old)
    assert await old.server.stop() == 0
    code, said = await aliquot("db", "check", "--data-folder", str(old.server.data_folder))
    assert code == 0, said
    await _check_replay(old, [edge["node"] for edge in found["ledger_passes"]["edges"]])


async def _all_live(old: OldCluster) -> dict[str, int] | None:
    jobs = old.jobs()
    return jobs if len(jobs) == len(old.facts["running"]) + 1 else None


async def _check_sessions(client: Client, facts: dict[str, Any]) -> None:
    assert (await until_state(client, facts["done"], "completed"))["exit_code"] == 0
    assert await output_of(client, facts["done"]) == "done\n"
    assert (await until_state(client, facts["failed"], "failed"))["exit_code"] == 3
    for index, state in enumerate(("completed", "completed", "completed", "failed")):
        await until_state(client, f"{facts['array']}_{index}", state)
    await until_state(client, facts["held"], "held")
    await until_state(client, facts["waiting"], "queued")
    # Its lease lasted a day, which has passed since the recording.
    external = await until_state(client, facts["external"], "failed")
    assert external["failure"]["code"] == "lease_expired"


async def _held_gpus(client: Client, facts: dict[str, Any]) -> float:
    """The largest held part of a device in the minute before the old server ended, from the history."""
    last = datetime.fromtimestamp(facts["at_us"] / 1e6, UTC)
    asked = {"since": (last - timedelta(minutes=1)).isoformat(), "until": last.isoformat()}
    series = (await client.execute(HISTORY, asked))["device_history"]["series"]
    return float(max(value or 0 for one in series if one["metric"] == "held" for value in one["values"]))


async def _check_key_and_secret(old: OldCluster) -> None:
    """The old key works, and the secret stored with it reaches a job of its owner."""
    if os.geteuid() == 0:
        known = ("--server", old.server.url, "--token-file", str(old.server.data_folder / "token"))
        code, said = await aliquot("user", "set", "ann", "--unix", "games", *known)
        assert code == 0, said
    async with Client(old.server.url, old.facts["key"]) as client:
        told = await submit(
            client, 'echo "$HUB_TOKEN"', {"cuda.shares": "0.1"}, secrets=[{"name": "HUB_TOKEN", "as_env": "HUB_TOKEN"}]
        )
        await until_state(client, told, "completed")
        assert await output_of(client, told) == "a stored value\n"


async def _check_replay(old: OldCluster, passes: list[dict[str, Any]]) -> None:
    oldest = passes[-1]
    assert oldest["code_version"] != code_version()
    code, said = await aliquot("replay", str(oldest["number"]), "--data-folder", str(old.server.data_folder))
    assert code in (0, 1), said  # another version may decide differently; it has to print its version
    assert f"by another version of Aliquot, {oldest['code_version']}" in said
    assert code_version() in said


async def aliquot(*words: str) -> tuple[int, str]:
    """Run a command; (exit code, output)."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "aliquot", *words), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    printed, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, printed.decode()
