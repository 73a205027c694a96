"""Attacks on two servers on one PostgreSQL database: refused cheaply, without delaying the other server."""

import json
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from api_attacks import BODIES, TEXTS
from process_attacks import MEMORY_BYTES_MAX, Attacker, cpu_s_max, memory_bytes_most
from rest_server import RestServer, rest_server
from store_postgres import postgres_cluster


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RestServer, RestServer]]:
    """Leader and follower with one token."""
    folder = tmp_path_factory.mktemp("several")
    with postgres_cluster() as cluster, cluster.database() as url, ExitStack() as stack:
        flags = ("--database", url, "--no-local-agents", "--stopped")
        yield (stack.enter_context(rest_server(folder, *flags)), stack.enter_context(rest_server(folder, *flags)))


@pytest.mark.parametrize("role", ["leader", "follower"])
@pytest.mark.parametrize("name", [name for name in BODIES if name not in TEXTS])
def test_hostile_bodies_cost_little_on_leader_and_follower(
    pair: tuple[RestServer, RestServer], role: str, name: str
) -> None:
    server, other = pair if role == "leader" else pair[::-1]
    with server.client() as client, other.client() as beside:
        assert client.get("/orchestrator/status").json()["role"] == role
        attacker, body = Attacker(server, client), BODIES[name]()
        before = memory_bytes_most(server.pid)
        spent = attacker.cpu_s(lambda: attacker.post(body))
        delayed = attacker.delay_s(lambda: attacker.post(body))
        status, answer = attacker.post(body)
        assert status in (200, 400, 413), status
        assert json.loads(answer)["errors"]
        assert "data" not in json.loads(answer)
        assert spent <= cpu_s_max(), f"{spent * 1e3:.0f} ms"
        assert delayed <= cpu_s_max(), f"/healthz waited for {delayed * 1e3:.0f} ms of CPU time"
        assert memory_bytes_most(server.pid) - before <= MEMORY_BYTES_MAX
        assert attacker.works()
        assert Attacker(other, beside).works()
