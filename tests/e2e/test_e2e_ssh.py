"""OpenSSH's client, scp and rsync with a session, through `aliquot ssh-proxy`."""

import asyncio
import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("asyncssh", reason="asyncssh is the optional extra `ssh`")

from aliquot.cli.acceptance.processes import OwnServer
from e2e_sessions import submit, until_state
from own_terminal import piped

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(shutil.which("ssh") is None, reason="there is no ssh; apt-get install openssh-client"),
]

SERVE = """
import http.server
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"through ssh")
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
print("port", server.server_port, flush=True)
server.serve_forever()
"""


class Ssh:
    """OpenSSH's programs with their own configuration."""

    def __init__(self, server: OwnServer, folder: Path) -> None:
        self.config = folder / "config"
        self._environment = {
            **os.environ,
            "ALIQUOT_SERVER": server.url,
            "ALIQUOT_TOKEN_FILE": str(server.data_folder / "token"),
            "HOME": str(folder),
        }

    async def configured(self) -> None:
        """Write the output of `aliquot ssh-config`."""
        code, printed, errors = await piped("ssh-config", given=b"", environment={})
        assert code == 0, errors
        self.config.write_bytes(printed)

    async def run(self, *words: str, given: bytes = b"") -> tuple[int, bytes, bytes]:
        """Exit code, output and errors of a program."""
        process = await asyncio.create_subprocess_exec(
            *words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self._environment,
        )
        async with asyncio.timeout(60):
            printed, errors = await process.communicate(given)
        return process.returncode or 0, printed, errors

    async def ssh(self, *words: str, given: bytes = b"") -> tuple[int, bytes, bytes]:
        return await self.run("ssh", "-F", str(self.config), *words, given=given)


async def test_ssh_scp_and_rsync_reach_a_session(two_gpus: OwnServer, tmp_path: Path) -> None:
    ssh = Ssh(two_gpus, tmp_path)
    await ssh.configured()
    async with two_gpus.client() as client:
        id = await submit(client, f"exec /usr/bin/env python3 -c '{SERVE}'", {"cuda.device": "1"})
        await until_state(client, id, "running")
        port = ""
        while not port:
            port = (await client.session_log(id)).text.removeprefix("port").strip()
    host = f"aliquot-{id}"
    told = "echo $ALIQUOT_SESSION_ID; echo $CUDA_VISIBLE_DEVICES; pwd; echo wrong >&2; exit 7"
    code, printed, errors = await ssh.ssh(host, told)
    own, devices, folder = printed.decode().splitlines()
    assert (code, own, bool(devices), errors) == (7, id, True, b"wrong\n")
    data = os.urandom(3_000_000)
    assert (await ssh.ssh(host, "cat", given=data))[1] == data
    code, printed, errors = await ssh.ssh(
        "-tt", f"aliquot-{id[-12:]}", given=b"stty size; tty -s && echo a tty; exit 3\n"
    )
    assert (code, b"a tty" in printed) == (3, True), errors

    tree = tmp_path / "tree"
    tree.mkdir()
    for number in range(20):
        (tree / f"{number} with space").write_bytes(os.urandom(10_000))
    if shutil.which("rsync"):
        words = ("rsync", "-a", "-e", f"ssh -F {ssh.config}")
        code, _, errors = await ssh.run(*words, f"{tree}/", f"{host}:{folder}/copy/")
        assert code == 0, errors
        code, _, errors = await ssh.run(*words, f"{host}:{folder}/copy/", f"{tmp_path}/back/")
        assert code == 0, errors
        assert {file.name: file.read_bytes() for file in (tmp_path / "back").iterdir()} == {
            file.name: file.read_bytes() for file in tree.iterdir()
        }
    for protocol in ("-O", "-s") if _has_sftp() else ("-O",):
        code, _, errors = await ssh.run(
            "scp", protocol, "-F", str(ssh.config), str(tree / "0 with space"), f"{host}:{folder}/one{protocol}"
        )
        assert code == 0, errors
        code, _, errors = await ssh.run(
            "scp", protocol, "-F", str(ssh.config), f"{host}:{folder}/one{protocol}", str(tmp_path / "one")
        )
        assert (tmp_path / "one").read_bytes() == (tree / "0 with space").read_bytes()
    request = b"GET / HTTP/1.0\r\n\r\n"
    assert (await ssh.ssh("-W", f"localhost:{port}", host, given=request))[1].endswith(b"through ssh")
    assert b"through ssh" not in (await ssh.ssh("-W", f"10.0.0.1:{port}", host, given=request))[1]


async def test_ssh_to_a_session_that_does_not_run_fails_with_the_reason(two_gpus: OwnServer, tmp_path: Path) -> None:
    ssh = Ssh(two_gpus, tmp_path)
    await ssh.configured()
    async with two_gpus.client() as client:
        id = await submit(client, "true", {"cpu": "1"})
        await until_state(client, id, "completed")
    code, _, errors = await ssh.ssh(f"aliquot-{id}", "true")
    assert (code, b"is not running" in errors) == (255, True), errors
    code, _, errors = await ssh.ssh("aliquot-ses_none", "true")
    assert (code, b"there is no session" in errors) == (255, True), errors


def _has_sftp() -> bool:
    return any(Path(folder, "sftp-server").exists() for folder in ("/usr/lib/openssh", "/usr/libexec/openssh"))
