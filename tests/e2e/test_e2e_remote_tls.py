"""A second node without a tunnel: the server listens on all addresses, and agents connect by TLS."""

import asyncio
import json
import subprocess
import sys

import httpx
import pytest

from aliquot.cli.acceptance.processes import OwnAgent
from aliquot.errors import ConfigurationError
from aliquot.service.access import Trust
from aliquot.settings import read_settings
from e2e_sessions import until
from remote_tls import ServeProcess, served, shown

pytestmark = pytest.mark.anyio

EVERYWHERE = ("--host", "0.0.0.0", "--single-trust-domain")
CREATE = """
mutation { create_session(input: { command: { shell: "exit 7" }, slots: [{ slot: "cuda.device", amount: "1" }] }) {
  __typename
} }
"""
ENDED = "{ sessions { edges { node { state exit_code } } } }"


async def answer(http: httpx.AsyncClient, query: str, **headers: str) -> dict[str, object]:
    told = await http.post("/graphql", json={"query": query}, headers=headers)
    assert told.status_code == 200, told.text
    return dict(told.json()["data"])


async def check(on: ServeProcess, agent: OwnAgent, *more: str) -> tuple[int, dict[str, dict[str, str]]]:
    command = [sys.executable, "-m", "aliquot", "agent", "check", "--json", "--server", on.url, "--demo-node", "1"]
    done = await asyncio.to_thread(
        subprocess.run,
        [*command, "--key-file", str(agent.key_file), "--data-folder", str(agent.data_folder), *more],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, {result["name"]: result for result in json.loads(done.stdout)}


async def test_an_agent_connects_over_tls_and_a_renewed_certificate_is_used() -> None:
    async with served(*EVERYWHERE) as on, on.http() as http:
        agent = OwnAgent(on, "demo-1", "--demo-node", "1", "--ca-file", str(on.authority.file))
        agent.write_key()
        code, seen = await check(on, agent, "--ca-file", str(on.authority.file))
        assert (code, seen["key and protocol"]["grade"]) == (0, "ok"), seen
        assert "TLS with a valid certificate" in seen["reach of the server"]["seen"]
        code, seen = await check(on, agent)
        assert code == 1
        assert "not trusted here; pass the authority with --ca-file" in seen["reach of the server"]["seen"]
        await agent.start()
        try:
            await answer(http, CREATE)
            ended = {"sessions": {"edges": [{"node": {"state": "failed", "exit_code": 7}}]}}

            async def has_ended() -> bool:
                return await answer(http, ENDED) == ended

            await until(has_ended)
            first = await shown(on.port, on.authority)
            on.authority.issue("localhost")

            async def is_renewed() -> bool:
                return await shown(on.port, on.authority) != first

            await until(is_renewed)
        finally:
            await agent.stop()


async def test_an_agent_that_does_not_trust_the_server_certificate_says_so_and_retries() -> None:
    async with served(*EVERYWHERE) as on:
        agent = OwnAgent(on, "demo-1", "--demo-node", "1")
        await agent.start()
        try:

            async def said() -> bool:
                return "not trusted here; pass the authority with --ca-file" in agent.log()

            await until(said)
            assert "retrying" in agent.log()
        finally:
            await agent.stop()


@pytest.mark.parametrize(
    ("options", "believed"), [((), False), (("--behind-proxy",), True), ((*EVERYWHERE, "--behind-proxy"), True)]
)
async def test_forwarded_headers_count_only_behind_a_proxy(options: tuple[str, ...], believed: bool) -> None:
    async with served(*options, tls=False) as on:
        code = on.printed().partition("/login?code=")[2].split()[0]
        async with httpx.AsyncClient(base_url=f"http://localhost:{on.port}", trust_env=False) as http:
            signed_in = await http.get(f"/login?code={code}", headers={"x-forwarded-proto": "https"})
    assert ("Secure" in signed_in.headers["set-cookie"]) == believed


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (
            {"host": "0.0.0.0"},
            "traffic would not be encrypted; give --tls-certificate and --tls-key, or --behind-proxy",
        ),
        ({"host": "::", "behind_proxy": True}, "--single-trust-domain that all users trust each other"),
        ({"host": "10.0.0.1", "single_trust_domain": True}, "traffic would not be encrypted"),
        ({"tls_certificate": "server.pem"}, "tls-certificate and tls-key belong together; give both"),
    ],
)
def test_listening_beyond_loopback_is_refused_with_unsafe_settings(
    flags: dict[str, object], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(ConfigurationError) as refused:
        read_settings(**flags)
    assert words in str(refused.value)


@pytest.mark.parametrize("flags", [{"single_trust_domain": True}, {"local_agents": "no"}])
def test_a_single_trust_domain_or_remote_agents_need_no_root(
    flags: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert read_settings(host="0.0.0.0", behind_proxy=True, **flags).trust is not Trust.ALONE


def test_a_server_run_as_root_separates_its_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert read_settings(host="0.0.0.0", behind_proxy=True).trust is Trust.SEPARATE


async def test_a_server_that_would_not_be_safe_does_not_start() -> None:
    async with served("--host", "0.0.0.0", tls=False) as on:
        assert await on.stop() == 2
        assert "aliquot cannot start: host: 0.0.0.0 can be reached from other machines" in on.printed()
