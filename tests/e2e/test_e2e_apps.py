"""Web apps of sessions: a real HTTP server, and a real JupyterLab whose kernel runs a cell."""

import asyncio
import json
import os
import shutil
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from aliquot.cli.acceptance.cluster_view import until_joined
from aliquot.cli.acceptance.processes import OwnServer
from aliquot.client.generated.audit import AuditFilterInput
from e2e_sessions import submit, until, until_state
from own_app import OwnApp, own_app
from own_terminal import piped

pytestmark = pytest.mark.anyio

ACCELERATORS = Path(__file__).parents[1] / "data" / "accelerators"
JUPYTER = os.environ.get("ALIQUOT_TESTS_JUPYTER", "")
"""Folder of the programs `jupyter` and `tensorboard`."""
NEEDS_JUPYTER = pytest.mark.skipif(
    shutil.which("jupyter", path=JUPYTER) is None, reason="there is no JupyterLab; scripts/test --long installs it"
)
CANCEL = "mutation ($id: ID!) { cancel_session(input: { id: $id }) { __typename } }"
SERVICES = "query ($id: ID!) { session(id: $id) { services { name port url state } } }"
SERVE = """
import http.server, os
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        is_own = self.headers["Authorization"] == "Bearer " + os.environ["ALIQUOT_APP_TOKEN"]
        self.send_response(200); self.end_headers()
        self.wfile.write((os.environ["ALIQUOT_SESSION_ID"] + " " + str(is_own) + " ").encode() * 20000)
http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["ALIQUOT_APP_WEB"])), Page).serve_forever()
"""


@pytest.fixture
async def notebooks(anyio_backend: str) -> AsyncIterator[OwnServer]:
    """A server whose jobs may use the programs in `JUPYTER`, possibly in this account's home folder."""
    account = ("--allow-root-jobs", "--job-user", "root") if os.geteuid() == 0 else ()
    async with OwnServer(*account, "--accelerators", str(ACCELERATORS / "two_gpus.toml")) as server:
        async with server.client() as client:
            await until_joined(client, agents=1)
        yield server


def place(server: OwnServer) -> dict[str, str]:
    return {"ALIQUOT_SERVER": server.url, "ALIQUOT_TOKEN_FILE": str(server.data_folder / "token")}


async def test_an_app_of_a_session_is_served_at_its_own_origin(two_gpus: OwnServer) -> None:
    command = f"exec /usr/bin/env python3 -c '{SERVE}'"
    words = ("session", "create", "-r", "cpu=1", "--app", "web", "--app", "other=9", "--", "sh", "-c", command)
    code, printed, errors = await piped(*words, given=b"", environment=place(two_gpus))
    assert code == 0, errors
    id = printed.decode().split()[0]
    async with two_gpus.client() as client:
        await until_state(client, id, "running")
        web, other = (await client.execute(SERVICES, {"id": id}))["session"]["services"]
        assert (web["url"], web["state"], other["port"]) == (f"/sessions/{id}/apps/web", "running", 9)
    code, printed, errors = await piped(
        *("session", "open", id, "web", "--no-browser"), given=b"", environment=place(two_gpus)
    )
    assert code == 0, errors
    async with own_app(printed.decode().strip()) as app:
        assert app.host.startswith(f"web-{id.removeprefix('ses_')}.apps.localhost:")

        async def answered() -> str:
            answer = await app.http.get("/")
            return answer.text if answer.status_code == 200 else ""

        assert await until(answered) == f"{id} True " * 20000
        async with two_gpus.client() as client:
            page = await client.audit(filter=AuditFilterInput(kind="action.app_opened"), first=10)
            assert len(page.edges) == 1
            await client.change(CANCEL, {"id": id})
            await until_state(client, id, "canceled")
        assert (await app.http.get("/")).status_code == 409
        led = await app.http.get("/deep", headers={"accept": "text/html"})
        assert (led.status_code, led.headers["location"]) == (303, f"{two_gpus.url}{web['url']}?next=%2Fdeep")
    headers = {"authorization": f"Bearer {two_gpus.token}", "accept": "text/html"}
    async with httpx.AsyncClient(base_url=two_gpus.url, headers=headers) as browser:
        led = await browser.get(web["url"])
        assert (led.status_code, led.headers["location"]) == (303, f"/sessions/{id}")
    code, _, errors = await piped("session", "open", id, "web", environment=place(two_gpus), given=b"")
    assert (code, b"is not running" in errors) == (3, True), errors


async def test_names_of_apps_are_checked(two_gpus: OwnServer) -> None:
    for app in ("Lab=1", "lab=70000", "token", "a-b", "x" * 13):
        code, _, errors = await piped(
            *("session", "create", "--app", app, "--", "true"), given=b"", environment=place(two_gpus)
        )
        assert (code, b"apps" in errors) == (3, True), errors


def message(kind: str, content: dict[str, Any]) -> str:
    """A message of the Jupyter protocol, https://jupyter-client.readthedocs.io/en/stable/messaging.html."""
    header = {
        "msg_id": uuid.uuid4().hex,
        "msg_type": kind,
        "username": "",
        "session": uuid.uuid4().hex,
        "version": "5.4",
    }
    parts = {"header": header, "parent_header": {}, "metadata": {}, "content": content}
    return json.dumps({**parts, "channel": "shell", "buffers": []})


async def ran(app: OwnApp, kernel: str, code: str) -> str:
    """The output of a cell."""
    async with app.socket(f"/api/kernels/{kernel}/channels") as socket, asyncio.timeout(60):
        await socket.send(message("execute_request", {"code": code, "silent": False}))
        while True:
            found = json.loads(await socket.recv())
            if found["msg_type"] == "stream":
                return str(found["content"]["text"])


@NEEDS_JUPYTER
async def test_jupyterlab_runs_a_cell_and_ends_when_it_is_idle(notebooks: OwnServer) -> None:
    path = f"{JUPYTER}:{os.environ['PATH']}"
    began = time.monotonic()
    code, printed, errors = await piped(
        *("jupyter", "-r", "gpu=0.25", "--idle", "20s", "-e", f"PATH={path}", "--no-browser"),
        given=b"",
        environment=place(notebooks),
    )
    assert code == 0, errors
    print(f"\nJupyterLab listened {time.monotonic() - began:.1f} s after the command; {errors.decode().strip()}")
    id, address = printed.decode().split()
    async with own_app(address) as app:
        page = await app.http.get("/lab", follow_redirects=True)
        assert "JupyterLab" in page.text
        xsrf = next(value for name, value in app.http.cookies.items() if name == "_xsrf")
        app.http.headers["cookie"] = f"{app.cookie}; _xsrf={xsrf}"
        made = await app.http.post("/api/kernels", json={"name": "python3"}, headers={"x-xsrftoken": xsrf})
        assert made.status_code == 201, made.text
        kernel = made.json()["id"]
        printed_text = await ran(app, kernel, "import os; print(6 * 7, os.environ['ALIQUOT_SESSION_ID'])")
        assert printed_text == f"42 {id}\n"
        async with app.socket(f"/api/kernels/{kernel}/channels") as tab:
            # A busy kernel counts as activity beyond the limit; an open tab alone does not.
            await tab.send(message("execute_request", {"code": "import time; time.sleep(40)", "silent": False}))
            await asyncio.sleep(35)
            async with notebooks.client() as client:
                assert (await client.session(id)).state == "running"  # type: ignore[union-attr]
            for _ in range(3):  # waits a minute at most
                with suppress(TimeoutError):
                    async with notebooks.client() as client:
                        await until_state(client, id, "completed", "failed")
                        return
            raise AssertionError("it did not end by itself")


@NEEDS_JUPYTER
async def test_tensorboard_shows_its_page(notebooks: OwnServer, tmp_path: Path) -> None:
    from aliquot.cli.session.app import preset

    wanted = preset("tensorboard")
    environment = [
        {"name": "PATH", "value": f"{JUPYTER}:{os.environ['PATH']}"},
        {"name": "LOGDIR", "value": str(tmp_path)},
    ]
    async with notebooks.client() as client:
        id = await submit(
            client, wanted["command"], {"cpu": "1"}, environment=environment, apps=[{"name": wanted["app"]}]
        )
        await until_state(client, id, "running")
    _, printed, _ = await piped("session", "open", id, "--no-browser", given=b"", environment=place(notebooks))
    async with own_app(printed.decode().strip()) as app:

        async def answered() -> str:
            answer = await app.http.get("/")
            return answer.text if answer.status_code == 200 else ""

        assert "TensorBoard" in await until(answered)
        assert (await app.http.get("/data/environment")).json()["data_location"] == str(tmp_path)


@pytest.mark.skipif(shutil.which("mlflow", path=JUPYTER) is None, reason="there is no MLflow beside JupyterLab")
async def test_mlflow_accepts_requests_from_its_own_pages(notebooks: OwnServer) -> None:
    """It rejects unknown hosts and origins."""
    from aliquot.cli.session.app import preset

    wanted, home = preset("mlflow"), notebooks.folder / "home"
    home.mkdir()
    variables = {"PATH": f"{JUPYTER}:{os.environ['PATH']}", "HOME": str(home)}
    environment = [{"name": name, "value": value} for name, value in variables.items()]
    async with notebooks.client() as client:
        id = await submit(
            client, wanted["command"], {"cpu": "1"}, environment=environment, apps=[{"name": wanted["app"]}]
        )
        await until_state(client, id, "running")
    _, printed, _ = await piped("session", "open", id, "--no-browser", given=b"", environment=place(notebooks))
    async with own_app(printed.decode().strip()) as app:

        async def answered() -> str:
            answer = await app.http.get("/")
            return answer.text if answer.status_code == 200 else ""

        page = ""
        for _ in range(3):  # waits a minute at most; it starts slowly on a busy machine
            with suppress(TimeoutError):
                page = page or await until(answered)
        assert "<title>MLflow</title>" in page
        made = await app.http.post(
            "/ajax-api/2.0/mlflow/experiments/create",
            json={"name": "first"},
            headers={"origin": f"http://{app.host}"},
        )
        assert made.status_code == 200, made.text
    assert (home / "mlflow.db").is_file()


async def test_two_notebooks_on_one_node_have_ports_of_their_own(two_gpus: OwnServer) -> None:
    async with two_gpus.client() as client:
        ids = [await submit(client, "sleep 100", {"cpu": "1"}, apps=[{"name": "lab"}]) for _ in range(2)]
        for id in ids:
            await until_state(client, id, "running")
        found = [(await client.execute(SERVICES, {"id": id}))["session"]["services"][0]["port"] for id in ids]
        assert len(set(found)) == 2
