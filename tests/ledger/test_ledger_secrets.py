"""A value of a session's environment: where it may be stored or shown, and where not."""

import asyncio
import stat
import sys
from pathlib import Path

import pytest

from aliquot.cli.acceptance.processes import OwnAgent, OwnServer
from aliquot.client import Client, Refused
from aliquot.store.open import SQLITE_FILE
from e2e_sessions import submit, until_state
from ledger_dump import rows_of, tables_with
from remote_cluster import Cluster, cluster

pytestmark = pytest.mark.anyio

SECRET = "hunter2-correct-horse"
ENVIRONMENT = [{"name": "API_TOKEN", "value": SECRET}]
SLOTS = {"cuda.device": "1"}
MAY_HOLD = {"sessions", "events"}
"""A session starts from its row, also after a restart and by another server; the log's fold is the rows."""


async def aliquot(*arguments: str) -> str:
    """A command's output, on both streams."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "aliquot", *arguments), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    out, _ = await process.communicate()
    return out.decode()


async def refusals(client: Client) -> str:
    """The errors of invalid requests, each containing the secret."""
    wrong = (
        {"environment": [*ENVIRONMENT, {"name": "1=", "value": SECRET}]},
        {"environment": [*ENVIRONMENT, *ENVIRONMENT]},
        {"environment": [{"name": "NUL", "value": f"{SECRET}\0"}]},
        {"environment": [{"name": "LONG", "value": SECRET * 100_000}]},
        {"environment": [{"name": "ALIQUOT_ATTEMPT", "value": SECRET}]},
        {"environment": ENVIRONMENT, "idempotency_key": "k", "time_limit": 7.0},
        {"environment": ENVIRONMENT, "cluster_size": 4000},
    )
    said = []
    for more in wrong:
        with pytest.raises(Refused) as refused:
            await submit(client, "true", SLOTS, **more)
        said.append(repr(refused.value))
    return "\n".join(said)


async def happen(on: Cluster) -> None:
    """Sessions with the secret run, fail, are retried, canceled, and cannot be started."""
    more = {"environment": ENVIRONMENT}
    kept = await submit(on.client, "exec sleep 600", SLOTS, idempotency_key="k", **more)
    await until_state(on.client, kept, "running")
    for script in ("exit 3", "kill -9 $$"):
        await until_state(on.client, await submit(on.client, script, SLOTS, max_retries=1, **more), "failed")
    nowhere = await submit(on.client, "true", SLOTS, working_directory="/nowhere", **more)
    await until_state(on.client, nowhere, "failed")
    assert SECRET not in await refusals(on.client)


def readable_by_others(agent: OwnAgent) -> list[str]:
    """Files of an agent with the secret that others may read, or outside any private folder."""
    files = [path for path in agent.data_folder.rglob("*") if path.is_file() and not path.is_symlink()]
    found = [path for path in files if SECRET.encode() in path.read_bytes()]
    return [str(path) for path in found if stat.S_IMODE(path.stat().st_mode) & 0o077]


async def outputs(server: OwnServer) -> str:
    """Output of commands on a running server, with the files that they write."""
    asking = ("--server", server.url, "--token-file", str(server.data_folder / "token"))
    folder = server.folder / "state"
    said = [await aliquot("state", "export", str(folder), *asking), await aliquot("doctor", "--json", *asking)]
    files = [path.read_text() for path in folder.iterdir()]
    assert len(files) == 4
    return "\n".join([*said, *files])


async def records(folder: Path) -> str:
    """Output of commands on the database of a stopped server."""
    at = ("--data-folder", str(folder))
    audit = await aliquot("audit", "log", "--last", "10000", "--json", *at)
    assert "API_TOKEN" in audit, "names are shown"
    plain = await aliquot("audit", "log", "--last", "10000", *at)
    return "\n".join([audit, plain, await aliquot("replay", "--last", "1000", "--json", *at)])


async def test_a_secret_is_stored_only_where_sessions_are_started_from() -> None:
    async with cluster() as on:
        agent = await on.agent()
        await happen(on)
        assert SECRET not in await outputs(on.server)
        changes = (await on.client.audit(first=100)).edges
        assert "API_TOKEN" in repr(changes)
        assert SECRET not in repr(changes)
        assert readable_by_others(agent) == []
        await agent.stop()
        await on.server.stop()
        assert SECRET not in agent.log()
        assert SECRET not in (on.server.folder / "server.log").read_text()
        assert SECRET not in await records(on.server.data_folder)
        database = on.server.data_folder / SQLITE_FILE
        assert rows_of("checkpoints", file=database) > 0
        assert tables_with(SECRET, file=database) == MAY_HOLD
        assert stat.S_IMODE(database.stat().st_mode) & 0o077 == 0
        exported = on.server.folder / "exported"
        told = await aliquot("db", "export", str(exported), "--data-folder", str(on.server.data_folder))
        assert "It holds the environments of sessions: protect it like the database." in told
        assert stat.S_IMODE(exported.stat().st_mode) & 0o077 == 0
