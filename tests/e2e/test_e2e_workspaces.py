"""`--sync` and `--env`: a real server and agent, real uploads, and real uv environments."""

import asyncio
import hashlib
import http.server
import json
import os
import shutil
import subprocess
import tempfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from aliquot.cli.acceptance.cluster_view import until_joined
from aliquot.cli.acceptance.processes import OwnServer
from aliquot.execution.agent.isolation.sandbox import sandbox_fault
from aliquot.execution.agent.job_user import JobUserPolicy, resolve_user
from e2e_sessions import output_of, until_state
from own_terminal import piped
from remote_proxy import Streams, proxied

pytestmark = pytest.mark.anyio

TWO_GPUS = Path(__file__).parents[1] / "data" / "accelerators" / "two_gpus.toml"
UV = Path(__file__).parents[2] / ".venv" / "bin" / "uv"
NEEDS_UV = pytest.mark.skipif(not UV.exists(), reason="uv is not in .venv")
LISTING, BLOCKS = b"POST /workspaces HTTP", b"POST /workspaces/blocks HTTP"
WHY_NOT = sandbox_fault(resolve_user(JobUserPolicy(), asked=None, uid=os.geteuid(), environment=os.environ))
SHOW = "find . -type f -o -type l | sort; cat data/a.txt; echo changed > data/a.txt"


class Recording:
    """A writer that records its data."""

    def __init__(self, writer: asyncio.StreamWriter, sent: bytearray) -> None:
        self._writer = writer
        self._sent = sent

    def write(self, data: bytes) -> None:
        self._sent += data
        self._writer.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)


def place(server: OwnServer, url: str | None = None) -> dict[str, str]:
    return {"ALIQUOT_SERVER": url or server.url, "ALIQUOT_TOKEN_FILE": str(server.data_folder / "token")}


def project(folder: Path) -> Path:
    files = {
        "main.py": "print('ran')\n",
        "data/a.txt": "first\n",
        "data/b.log": "no\n",
        "data/keep.log": "yes\n",
        "build/out.bin": "no\n",
        ".gitignore": "*.log\nbuild/\n",
        "data/.gitignore": "!keep.log\n",
        ".venv/bin/python": "no\n",
        "__pycache__/main.pyc": "no\n",
        ".git/config": "no\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "link").symlink_to("main.py")
    return folder


async def test_a_second_sync_of_an_unchanged_folder_sends_only_the_listing(two_gpus: OwnServer, tmp_path: Path) -> None:
    folder, sent = project(tmp_path / "project"), bytearray()

    async def dial() -> Streams:
        reader, writer = await asyncio.open_connection("127.0.0.1", two_gpus.port)
        return reader, Recording(writer, sent)  # type: ignore[return-value]  # it is used as one

    async with proxied(dial) as proxy, two_gpus.client() as client:

        async def run(*words: str) -> tuple[str, int, int, bool]:
            """The job's output, the numbers of listings and of uploads, and whether the file's text was sent."""
            sent.clear()
            code, printed, errors = await piped(*words, given=b"", environment=place(two_gpus, proxy.url))
            assert code == 0, errors
            id = printed.decode().split()[0].rstrip(":")
            await until_state(client, id, "completed")
            counts = sent.count(LISTING), sent.count(BLOCKS), b"first\n" in sent
            return await output_of(client, id), *counts

        create = ("session", "create", "-r", "cpu=1", "--sync", str(folder), "--", "sh", "-c", SHOW)
        there = ["./.gitignore", "./data/.gitignore", "./data/a.txt", "./data/keep.log", "./link", "./main.py"]
        output, listings, contents, has_text = await run(*create)
        assert output.splitlines() == [*there, "first"]
        assert (listings, contents, has_text) == (2, 1, True)  # the second listing's answer: nothing is missing
        output, listings, contents, has_text = await run(*create)
        assert output.splitlines() == [*there, "first"], "an earlier job changed its own copy alone"
        assert (listings, contents, has_text) == (1, 0, False)
        (folder / "main.py").write_text("print('changed')\n")
        output, listings, contents, has_text = await run(*create)
        assert (listings, contents, has_text) == (2, 1, False)
        file = tmp_path / "job.yaml"
        file.write_text("command: python3 main.py\nsync: project\nresources: {cpu: 1}\n")
        output, listings, contents, _ = await run("run", str(file))
        assert (output, listings, contents) == ("changed\n", 1, 0)
        assert (await client.audit(filter=None, first=100)).edges


class Registry(http.server.BaseHTTPRequestHandler):
    """The simple repository API with one package, `dep` 1. https://peps.python.org/pep-0503/"""

    wheel = b""
    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(f"{self.command} {self.path}")
        if self.path.endswith(".whl"):
            return self._answer(self.wheel, "application/octet-stream")
        digest = hashlib.sha256(self.wheel).hexdigest()
        name = "dep-1-py3-none-any.whl"
        return self._answer(f'<a href="/{name}#sha256={digest}">{name}</a>'.encode(), "text/html")

    def _answer(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def registry(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Its address, and the requested paths."""
    meta, asked = "dep-1.dist-info", list[str]()
    with zipfile.ZipFile(folder / "wheel", "w") as wheel:
        wheel.writestr("dep.py", "VALUE = 42\n")
        wheel.writestr(f"{meta}/METADATA", "Metadata-Version: 2.1\nName: dep\nVersion: 1\n")
        wheel.writestr(f"{meta}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{meta}/RECORD", "".join(f"{name},,\n" for name in ("dep.py", f"{meta}/METADATA")))
    handler = type("Handler", (Registry,), {"wheel": (folder / "wheel").read_bytes(), "asked": asked})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as listener:
        thread = threading.Thread(target=listener.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.server_port}/simple", asked
        finally:
            listener.shutdown()
            thread.join()


def locked_project(folder: Path, index: str) -> Path:
    folder.mkdir()
    text = '[project]\nname = "train"\nversion = "1"\nrequires-python = ">=3.11"\ndependencies = ["dep"]\n'
    text += f'[tool.uv]\npackage = false\n[[tool.uv.index]]\nurl = "{index}"\ndefault = true\n'
    (folder / "pyproject.toml").write_text(text)
    environment = {
        "PATH": "/usr/bin:/bin",
        "UV_CACHE_DIR": str(folder.parent / "cache"),
        "UV_PYTHON": "/usr/bin/python3",
    }
    done = subprocess.run([UV, "lock", "--project", str(folder)], env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def programs() -> Iterator[Path]:
    """A folder with uv, readable for all accounts."""
    folder = Path(tempfile.mkdtemp(prefix="aliquot-programs-"))
    try:
        folder.chmod(0o755)
        shutil.copy(UV, folder)
        yield folder
    finally:
        shutil.rmtree(folder)


IMPORT = "import dep, os, sys; print(dep.VALUE, sys.prefix == os.environ['VIRTUAL_ENV'])"


@NEEDS_UV
@pytest.mark.parametrize(
    "sandbox",
    [(), pytest.param(("--sandbox",), marks=pytest.mark.skipif(WHY_NOT is not None, reason=f"no sandbox: {WHY_NOT}"))],
    ids=["plain", "sandbox"],
)
async def test_packages_of_uv_are_fetched_once(tmp_path: Path, programs: Path, sandbox: tuple[str, ...]) -> None:
    """The job account may have no home: uv's cache still survives the session."""
    mounts = {"ALIQUOT_SANDBOX_MOUNTS": f"{programs}:ro"}
    path = f"PATH={programs}:/usr/bin:/bin"
    async with OwnServer("--accelerators", str(TWO_GPUS), environment=mounts) as server, server.client() as client:
        await until_joined(client, agents=1)
        with registry(tmp_path) as (index, asked):
            folder = locked_project(tmp_path / "project", index)
            asked.clear()
            words = ("session", "create", "-r", "cpu=1", *sandbox, "--sync", str(folder), "--env", "uv", "-e", path)
            ids = list[str]()
            for _ in range(2):
                code, printed, errors = await piped(
                    *(*words, "--wait", "--", "python", "-c", IMPORT), given=b"", environment=place(server)
                )
                ids.append(printed.decode().split()[0].rstrip(":"))
                text = await output_of(client, ids[-1])
                assert code == 0, errors + text.encode()
                assert "42 True" in text
                assert [one for one in asked if one.endswith(".whl")] == ["GET /dep-1-py3-none-any.whl"]
        words = ("session", "environment", ids[1], "--json")
        code, printed, errors = await piped(*words, given=b"", environment=place(server))
        assert code == 0, errors
        record = json.loads(printed)["environment"]
        assert (record["packages"], record["environment"]) == ({"dep": "1"}, "uv")
        assert f"/kernels/{ids[1]}.1.0/work/.venv/bin/python" in record["executable"]
