"""Terminals in sessions, with a real pseudo-terminal on the client and a real shell in the job."""

import asyncio
import hashlib
import os
import shutil
import signal

import httpx
import pytest

from aliquot.cli.acceptance.processes import OwnServer
from aliquot.client.generated.audit import AuditFilterInput
from aliquot.execution.agent.isolation.sandbox import sandbox_fault
from aliquot.execution.agent.job_user import JobUserPolicy, resolve_user
from e2e_sessions import submit, until, until_state
from own_terminal import OwnTerminal, own_terminal, piped
from remote_cluster import cluster
from remote_proxy import proxy_to

pytestmark = pytest.mark.anyio

WAIT = "sleep 1000"
WHY_NOT = sandbox_fault(resolve_user(JobUserPolicy(), asked=None, uid=os.geteuid(), environment=os.environ))
CANCEL = "mutation ($id: ID!) { cancel_session(input: { id: $id }) { __typename } }"
RECORD = 2 * 1024 * 1024


def place(server: OwnServer, url: str | None = None) -> dict[str, str]:
    return {"ALIQUOT_SERVER": url or server.url, "ALIQUOT_TOKEN_FILE": str(server.data_folder / "token")}


async def prompted(terminal: OwnTerminal) -> None:
    """Wait for the shell, and make it print only the expected text."""
    terminal.type("PS1='ready> '; stty -echo\n")
    await terminal.until("ready> ")
    terminal.type("echo on''e\n")
    await terminal.until("one\r\n")


async def test_a_terminal_survives_lost_connections_closed_viewers_and_a_server_restart(two_gpus: OwnServer) -> None:
    async with two_gpus.client() as client:
        id = await submit(client, WAIT, {"cuda.device": "1"}, environment=[{"name": "OWN", "value": "its own"}])
        await until_state(client, id, "running")
    with own_terminal("session", "shell", id, "--name", "mine", environment=place(two_gpus)) as terminal:
        await prompted(terminal)
        terminal.type("echo $OWN/$ALIQUOT_SESSION_ID/$CUDA_VISIBLE_DEVICES/$(stty size)/; kept=1234\n")
        own, session_id, devices, _ = (await terminal.until("30 100/")).splitlines()[-1].split("/")
        assert (own, session_id, bool(devices)) == ("its own", id, True)
        terminal.size(41, 111)
        terminal.type("while [ \"$(stty size)\" != '41 111' ]; do sleep 0.05; done; echo as''ked\n")
        await terminal.until("asked")
        if shutil.which("vim"):
            terminal.type("vim -u NONE -i NONE\n")
            await terminal.until("~")
            terminal.type("ia line of text\x1b")
            await terminal.until("a line of text")
        with own_terminal("session", "shell", id, "--name", "mine", environment=place(two_gpus)) as other:
            if shutil.which("vim"):
                await other.until("a line of text")
                other.type(":q!\r")
                await other.until("ready> ")  # vim discards typed input when it ends
            other.type("echo ty''ped $kept\n")
            await other.until("typed 1234")
            await terminal.until("typed 1234")
            other.type("\n~.")
            assert await other.exit_code() == 0
        await two_gpus.kill()
        await terminal.until("the connection was lost")
        await two_gpus.start()
        terminal.type("echo $((kept + 1)); exit 5\n")
        await terminal.until("1235")
        assert await terminal.exit_code() == 5
    async with two_gpus.client() as client:
        page = await client.audit(filter=AuditFilterInput(kind="action.terminal_opened"), first=10)
        assert len(page.edges) == 3
        assert all(edge.node.actor != "" and edge.node.entity_id.startswith("stream/") for edge in page.edges)
        assert "typed" not in str(page)


async def test_piped_input_arrives_completely_despite_lost_connections(two_gpus: OwnServer) -> None:
    async with two_gpus.client() as client:
        id = await submit(client, WAIT, {"cpu": "1"})
        await until_state(client, id, "running")
    code, printed, errors = await piped(
        *("session", "shell", id), given=b"echo out; echo err >&2; exit 7\n", environment=place(two_gpus)
    )
    assert (code, printed, errors) == (7, b"out\n", b"err\n")
    data = os.urandom(RECORD)
    async with proxy_to(two_gpus.port) as proxy:
        command = ("session", "shell", id, "--", "sh", "-c", "head -c 300000; touch half; cat; exit 3")
        running = asyncio.create_task(piped(*command, given=data, environment=place(two_gpus, proxy.url)))
        half = await until(lambda: _file(two_gpus, "half"))
        assert half
        proxy.cut()
        proxy.resume()
        code, printed, errors = await running
    assert code == 3, errors
    assert hashlib.sha256(printed).digest() == hashlib.sha256(data).digest()
    assert (await piped("session", "shell", id, "--", "no-such-program", given=b"", environment=place(two_gpus)))[
        0
    ] == 127


async def _file(server: OwnServer, name: str) -> bool:
    return any(True for _ in server.data_folder.rglob(name))


SERVE = """
import http.server, os
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(os.environ["ALIQUOT_SESSION_ID"].encode() * 20000)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
print("port", server.server_port, flush=True)
server.serve_forever()
"""


async def test_a_port_of_the_session_is_forwarded_and_a_port_of_another_session_is_refused(two_gpus: OwnServer) -> None:
    async with two_gpus.client() as client:
        server, other = [
            await submit(client, f"exec /usr/bin/env python3 -c '{SERVE}'", {"cpu": "1"}),
            await submit(client, WAIT, {"cpu": "1"}),
        ]

        async def printed() -> str:
            return (await client.session_log(server)).text

        port = (await until(printed)).split()[1]
        await until_state(client, other, "running")
    for id, is_own in ((server, True), (other, False)):
        with own_terminal("session", "forward", id, f"0:{port}", environment=place(two_gpus)) as terminal:
            await terminal.until("http://127.0.0.1:")
            local = (await terminal.until(" is port")).strip()
            async with httpx.AsyncClient(timeout=60) as http:
                if is_own:
                    answers = [await http.get(f"http://127.0.0.1:{local}/") for _ in range(3)]
                    assert [answer.text for answer in answers] == [id * 20000] * 3
                else:
                    with pytest.raises(httpx.TransportError):
                        await http.get(f"http://127.0.0.1:{local}/")
                    await terminal.until(f"no process of the session listens on port {port}")
    async with two_gpus.client() as client:
        page = await client.audit(filter=AuditFilterInput(kind="action.port_opened"), first=10)
        assert len(page.edges) == 2


async def test_the_shell_command_creates_a_session_that_ends_with_the_shell(two_gpus: OwnServer) -> None:
    words = ("shell", "-r", "gpu=0.5")
    code, printed, _ = await piped(*words, given=b"echo $ALIQUOT_SESSION_ID; exit 4\n", environment=place(two_gpus))
    assert code == 4
    async with two_gpus.client() as client:
        await until_state(client, printed.decode().strip(), "completed")


async def test_another_window_comes_back_to_the_shell_of_one_that_was_closed(two_gpus: OwnServer) -> None:
    with own_terminal("shell", "-r", "gpu=0.5", environment=place(two_gpus)) as terminal:
        terminal.type("kept=$((40 + 2)); echo id=$ALIQUOT_SESSION_ID=\n")
        await terminal.until("id=ses_")
        id = "ses_" + (await terminal.until("=")).strip()
        await asyncio.to_thread(terminal.hang_up)
    with own_terminal("session", "shell", id, "--name", "shell", environment=place(two_gpus)) as other:
        other.type("echo it is $kept; exit\n")
        await other.until("it is 42")
        assert await other.exit_code() == 0
    async with two_gpus.client() as client:
        await until_state(client, id, "completed")


async def test_a_window_that_is_closed_while_a_new_shell_waits_takes_its_session_along(two_gpus: OwnServer) -> None:
    async with two_gpus.client() as client:
        holder = await submit(client, WAIT, {"cuda.device": "2"})
        await until_state(client, holder, "running")
        with own_terminal("shell", "-r", "gpu=2", environment=place(two_gpus)) as terminal:
            await terminal.until("aliquot: ")
            id = (await terminal.until(" waits: ")).strip()
            await asyncio.to_thread(terminal.hang_up)
        await until_state(client, id, "canceled")


@pytest.mark.skipif(WHY_NOT is not None, reason=f"no sandbox: {WHY_NOT}")
async def test_a_terminal_runs_in_the_sandbox_of_its_session_and_ends_with_the_session(two_gpus: OwnServer) -> None:
    async with two_gpus.client() as client:
        id = await submit(client, f"readlink /proc/self/ns/mnt; {WAIT}", {"cpu": "1"}, sandbox="standard")
        await until_state(client, id, "running")
        text = f"readlink /proc/self/ns/mnt; cat {two_gpus.data_folder}/token; "
        text += "grep -E 'CapEff|CapBnd|NoNew' /proc/self/status"
        code, printed, errors = await piped(
            *("session", "shell", id), given=text.encode() + b"; exit 6\n", environment=place(two_gpus)
        )
        assert code == 6, errors
        namespace, *status = printed.decode().splitlines()
        assert two_gpus.token not in printed.decode()
        assert [line.split()[1] for line in status] == ["0" * 16, "0" * 16, "1"]

        async def of_job() -> bool:
            return namespace in "".join([chunk.text for chunk in [await client.session_log(id)]])

        await until(of_job)
        with own_terminal("session", "shell", id, environment=place(two_gpus)) as terminal:
            await prompted(terminal)
            await client.change(CANCEL, {"id": id})
            await terminal.until("the session has ended")
            assert await terminal.exit_code() == 1
        await until_state(client, id, "canceled")


async def test_a_terminal_survives_a_restart_of_its_remote_agent() -> None:
    async with cluster() as on:
        agent = await on.agent()
        await on.until_agent("alive")
        job = await on.job("first")
        await until_state(on.client, job, "running")
        with own_terminal("session", "shell", job, environment=place(on.server)) as terminal:
            await prompted(terminal)
            terminal.type("kept=77\n")
            await agent.stop(signal.SIGKILL)
            await terminal.until("the connection was lost")
            await agent.start()
            terminal.type("echo $((kept + 1)); exit 9\n")
            await terminal.until("78")
            assert await terminal.exit_code() == 9
        on.end_job("first")
        await on.ended(job)
