"""Results of sessions: real files of real jobs, listed and downloaded during and after the session."""

import asyncio
import hashlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from aliquot.cli.acceptance.processes import OwnAgent, OwnServer
from aliquot.client import Client
from aliquot.client.errors import Refused
from aliquot.client.generated.audit import AuditFilterInput
from aliquot.client.generated.inputs import CancelSessionInput
from aliquot.client.generated.result_files import SessionFiles
from e2e_sessions import submit, until, until_state
from remote_cluster import QUICK

pytestmark = pytest.mark.anyio

MAKES = """
cd $RESULT_DIR; mkdir -p plots; printf 'loss,step\\n0.5,1\\n' > metrics.csv; head -c 3000000 /dev/urandom > model.bin
cp model.bin plots/same.bin; ln -s /etc/passwd link; mkfifo pipe; touch "$(printf 'a\\033b')"
"""


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


async def cli(server: OwnServer, *words: str) -> str:
    """Output of a command."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "aliquot", *words),
        stdout=subprocess.PIPE,
        env={
            **os.environ,
            "ALIQUOT_SERVER": server.url,
            "ALIQUOT_TOKEN_FILE": str(server.data_folder / "token"),
        },
    )
    printed, _ = await process.communicate()
    assert process.returncode == 0
    return printed.decode()


async def ended(client: Client, id: str) -> SessionFiles:
    await until_state(client, id, "completed")
    return await client.results(id)


async def downloaded(server: OwnServer, id: str, sha: str | None) -> tuple[bytes, str]:
    """A file of 3 MB over plain HTTP, whole and by ranges, and its ETag."""
    address, headers = f"{server.url}/sessions/{id}/files/model.bin", {"Authorization": f"Bearer {server.token}"}
    async with httpx.AsyncClient(headers=headers) as http:
        whole = await http.get(address)
        assert whole.status_code == 200
        assert sha256(whole.content) == sha
        assert whole.headers["content-disposition"] == "attachment; filename*=UTF-8''model.bin"
        assert "sandbox" in whole.headers["content-security-policy"]
        assert whole.headers["x-content-type-options"] == "nosniff"
        for asked, expected in (
            ("bytes=10-19", slice(10, 20)),
            ("bytes=-7", slice(-7, None)),
            ("bytes=2999990-", slice(-10, None)),
        ):
            part = await http.get(address, headers={"Range": asked})
            assert (part.status_code, part.content) == (206, whole.content[expected])
        assert (await http.get(address, headers={"Range": "bytes=3000000-"})).status_code == 416
        stale = await http.get(address, headers={"Range": "bytes=0-1", "If-Range": '"other"'})
        assert (stale.status_code, len(stale.content)) == (200, 3_000_000)
        assert (await http.head(address)).headers["content-length"] == "3000000"
        tag = whole.headers["etag"]
        assert (await http.get(address, headers={"If-None-Match": tag})).status_code == 304
        return whole.content, tag


async def test_every_interface_lists_and_downloads_results_with_ranges(two_gpus: OwnServer, tmp_path: Path) -> None:
    async with two_gpus.client() as client:
        id = await submit(client, f"{MAKES} sleep 1000", {"cpu": "1"})
        await until_state(client, id, "running")

        async def made() -> bool:
            listed = await client.results(id)
            return listed.total_count == 3 and listed.left_out == 3

        await until(made)
        listed = await client.results(id)
        assert [one.path for one in listed.files] == ["metrics.csv", "model.bin", "plots/same.bin"]
        assert (await client.session_files(id, first=1, after="metrics.csv")).files == listed.files[1:2]
        assert listed.files[1].sha256 == listed.files[2].sha256

        content, tag = await downloaded(two_gpus, id, listed.files[1].sha256)
        table = await cli(two_gpus, "session", "files", id)
        assert "plots/same.bin" in table
        assert "3 more are not listed" in table
        target = tmp_path / "here"
        await cli(two_gpus, "session", "get", id, "plots", "metrics.csv", "-o", str(target))
        assert sorted(str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()) == [
            "metrics.csv",
            "plots/same.bin",
        ]
        assert (target / "plots/same.bin").read_bytes() == content
        told = [json.loads(line) for line in (await cli(two_gpus, "session", "files", id, "--json")).splitlines()]
        assert [one["path"] for one in told[0]] == [one.path for one in listed.files]

        # An interrupted download resumes.
        plain_tag = tag.strip('"')
        part = tmp_path / f".{hashlib.sha256(b'model.bin').hexdigest()[:16]}.{plain_tag}.part"
        part.write_bytes(content[:1000])
        assert await client.download(id, "model.bin", tmp_path / "model.bin", listed=listed.files[1]) == 3_000_000
        assert (tmp_path / "model.bin").read_bytes() == content
        assert not part.exists()

        await client.cancel_session(CancelSessionInput(id=id))
        await until_state(client, id, "canceled")
        assert (await client.results(id)).files == listed.files
        page = await client.audit(filter=AuditFilterInput(kind="action.result_opened"), first=10)
        assert len(page.edges) == 3


@pytest.fixture
def s3() -> Iterator[dict[str, str]]:
    """The environment for a bucket in moto's server."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    url = f"http://127.0.0.1:{port}"
    place = {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    try:
        while True:
            try:
                if httpx.put(f"{url}/results-bucket", timeout=5).status_code == 200:
                    break
            except httpx.TransportError:
                continue
        yield place
    finally:
        process.kill()
        process.wait()


async def check_copies(environment: dict[str, str], folder: Path) -> None:
    """Results stay the same after their agent is gone."""
    async with (
        OwnServer("--no-local-agents", environment={**QUICK, **environment}) as server,
        server.client() as client,
    ):
        agent = OwnAgent(server, "demo-1", "--demo-node", "1", environment=environment)
        await agent.start()
        try:
            id = await submit(client, MAKES, {"cpu": "1"})
            before = await ended(client, id)

            async def copied() -> bool:
                return (agent.folder / "sessions" / id / "copied").exists()

            await until(copied)
        finally:
            await agent.stop()
        after = await client.results(id)
        assert after.files == before.files
        await client.download(id, "metrics.csv", folder / "metrics.csv", listed=after.files[0])
        assert (folder / "metrics.csv").read_text() == "loss,step\n0.5,1\n"
        await client.download(id, "model.bin", folder / "model.bin", listed=after.files[1])
        with pytest.raises(Refused, match="no result"):
            await client.download(id, "link", folder / "link")


async def test_result_copies_in_a_shared_folder_remain_when_the_agent_is_gone(tmp_path: Path) -> None:
    await check_copies({"ALIQUOT_RESULTS_FOLDER": str(tmp_path / "kept")}, tmp_path)


async def test_result_copies_in_s3_remain_when_the_agent_is_gone(s3: dict[str, str], tmp_path: Path) -> None:
    await check_copies({**s3, "ALIQUOT_RESULTS_FOLDER": "s3://results-bucket/lab"}, tmp_path)
