"""A data folder of an earlier version: it opens with its sessions, and pending ones continue."""

import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aliquot.cli.acceptance.processes import OwnServer
from e2e_sessions import submit, until_state

pytestmark = pytest.mark.anyio

DATA = Path(__file__).parents[1] / "data"
RECORDED = DATA / "data_folder_0017.tar.xz"
"""Of the last version with seventeen revisions: a server with the two mock GPUs of `two_gpus.toml` ran three
sessions; then the orchestrator was stopped, three more were submitted, and the server ended."""
ENDED = {
    "ses_01a2040d-44cb-7140-8ea6-ace32f0a177f": ("completed", 0),
    "ses_01a2040d-4511-75f8-9c22-900648bacae7": ("failed", 3),
    "ses_01a2040d-4553-75b1-acd8-47eb231a444a": ("completed", 0),
}
QUEUED = [
    "ses_01a2040d-4599-776d-8577-6f5da6481f02",
    "ses_01a2040d-459f-7698-92b6-22b0089dd640",
    "ses_01a2040d-45a5-76fe-beb0-cffec93a7204",
]
START = "mutation { orchestrator_start { __typename } }"


@pytest.fixture
async def server() -> AsyncIterator[OwnServer]:
    """A server on a copy; not started."""
    kept = ("--keep", "sessions=forever", "--keep", "events=forever", "--keep", "ledger=forever")
    own = OwnServer("--accelerators", str(DATA / "accelerators" / "two_gpus.toml"), *kept)
    with tarfile.open(RECORDED) as archive:
        # The first releases of Python 3.11 have no filters.
        archive.extractall(own.data_folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    yield own
    await own.__aexit__(None, None, None)


async def test_a_folder_of_the_last_version_before_the_baseline_opens_and_goes_on(server: OwnServer) -> None:
    await server.start()
    async with server.client() as client:
        for session_id, (state, exit_code) in ENDED.items():
            assert (await until_state(client, session_id, state))["exit_code"] == exit_code
        for session_id in QUEUED:
            await until_state(client, session_id, "queued")
        assert await client.execute(START) == {"orchestrator_start": {"__typename": "OrchestratorChangeSuccess"}}
        fresh = await submit(client, "exit 5", {"cuda.device": "1"})
        for session_id in QUEUED:
            await until_state(client, session_id, "completed")
        assert (await until_state(client, fresh, "failed"))["exit_code"] == 5
    assert await server.stop() == 0
    # The database was at the baseline: only later migrations ran, after a backup.
    (backup,) = server.data_folder.rglob("*.backup")
    assert backup.name.startswith("aliquot.db.0017.")
