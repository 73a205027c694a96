"""Several servers on one database: the leader is killed, frozen, or cut off from the database."""

import asyncio
from contextlib import aclosing

import httpx
import pytest

from aliquot.cli.acceptance.processes import OwnServer
from aliquot.client import GraphQLFault
from failover_cluster import FailoverCluster, failover_cluster, pause_server, resume_server
from failover_proxy import postgres_proxy
from store_postgres import PostgresCluster

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

PIECE = "query ($id: ID!, $offset: BigInt!) { session_log(id: $id, offset: $offset) { text offset at_end } }"
LOGS = "subscription ($id: ID!) { session_logs(id: $id) { text at_end } }"


async def test_a_follower_takes_over_when_the_leader_is_killed_and_sessions_live_on(database_url: str) -> None:
    async with failover_cluster(database_url, database_url) as on:
        old, new = on.servers
        jobs = {name: await on.job(name, code=code) for name, code in (("a", 3), ("b", 4))}
        await old.kill()
        on.end_job("a")
        assert await on.leader(among=[new]) is new
        after = await on.submit("exit 5", key="after", first=1)
        assert (await on.ended(after))["exit_code"] == 5
        assert (await on.ended(jobs["a"]))["exit_code"] == 3
        await old.start()
        await on.wait_for_standing(old, role="follower", leader_address=new.url)
        on.end_job("b")
        ended = await on.wait_for_state(jobs["b"], "failed", at=old)
        assert (ended["exit_code"], ended["attempt"]) == (4, 1)
        assert (on.runs("a"), on.runs("b")) == (1, 1)


async def test_outputs_are_read_at_both_servers_while_they_are_printed(database_url: str) -> None:
    async with failover_cluster(database_url, database_url) as on:
        mark = on.mark("go on")
        script = f"echo first; while [ ! -e '{mark}' ]; do sleep 0.1; done; echo last"
        session_id = await on.submit(script, key="prints")
        for server in on.servers:
            assert await _printed(on, server, session_id, until="first") == "first\n"
            assert await _piece(on, server, session_id, offset=-3) == ("st\n", 3, False)
        mark.touch()
        for server in on.servers:
            assert await _printed(on, server, session_id, until=None) == "first\nlast\n"
            await on.wait_for_state(session_id, "completed", at=server)
            assert await _piece(on, server, session_id, offset=6) == ("last\n", 6, True)
        unknown = on.client(on.servers[1]).subscribe(LOGS, {"id": "ses_unknown"})
        with pytest.raises(GraphQLFault, match="there is no session"):
            await anext(unknown)


async def test_the_output_endpoint_of_servers_refuses_other_callers(database_url: str) -> None:
    async with failover_cluster(database_url, database_url, agents=0) as on:
        leader, follower = on.servers
        async with httpx.AsyncClient(trust_env=False) as http:
            asked = {"agent_id": "demo-1", "kernel_id": "ses_x.1.0"}
            refused = await http.get(f"{leader.url}/servers/outputs", params=asked)
            headers = {"Authorization": f"Bearer {leader.token}"}
            not_here = await http.get(f"{follower.url}/servers/outputs", params=asked, headers=headers)
        assert (refused.status_code, not_here.status_code) == (401, 503)
        assert "is not the leader" in not_here.text


async def test_a_frozen_leader_is_replaced_and_follows_when_it_wakes_up(database_url: str) -> None:
    async with failover_cluster(database_url, database_url) as on:
        old, new = on.servers
        job = await on.job("a", code=3)
        pause_server(old)
        assert await on.leader(among=[new]) is new
        after = await on.submit("exit 5", key="after", first=1)
        assert (await on.wait_for_state(after, "failed", at=new))["exit_code"] == 5
        resume_server(old)
        await on.wait_for_standing(old, role="follower", leader_address=new.url)
        assert "this server no longer leads" in old.log_tail()
        on.end_job("a")
        assert (await on.wait_for_state(job, "failed", at=old))["exit_code"] == 3
        assert on.runs("a") == 1
        await _runs_at_both(on)
        await on.wait_for_measurements(old)  # it has no agents any more: the leader answers


async def test_a_leader_that_is_cut_off_from_the_database_is_replaced(
    database_url: str, postgres: PostgresCluster
) -> None:
    """It still accepts requests, and its agents could still reach it."""
    async with postgres_proxy(postgres, database_url) as proxy, failover_cluster(proxy.url, database_url) as on:
        old, new = on.servers
        job = await on.job("a", code=3)
        proxy.wire.stall()
        assert await on.leader(among=[new]) is new
        await on.wait_for_agents(new)
        after = await on.submit("exit 5", key="after", first=1)
        assert (await on.wait_for_state(after, "failed", at=new))["exit_code"] == 5
        proxy.wire.resume()
        await on.wait_for_standing(old, role="follower", leader_address=new.url)
        on.end_job("a")
        assert (await on.wait_for_state(job, "failed", at=old))["exit_code"] == 3
        assert on.runs("a") == 1
        await _runs_at_both(on)


async def _printed(on: FailoverCluster, server: OwnServer, session_id: str, *, until: str | None) -> str:
    """The output of a session from one server: up to a text, or to the end."""
    text = ""
    async with asyncio.timeout(60), aclosing(on.client(server).subscribe(LOGS, {"id": session_id})) as pieces:
        async for piece in pieces:
            text += piece["session_logs"]["text"]
            if until is not None and until in text:
                return text
    return text


async def _piece(on: FailoverCluster, server: OwnServer, session_id: str, *, offset: int) -> tuple[str, int, bool]:
    """(text, offset, is at the end) of a piece of log from one server."""
    found = (await on.client(server).execute(PIECE, {"id": session_id, "offset": offset}))["session_log"]
    return found["text"], found["offset"], found["at_end"]


async def _runs_at_both(on: FailoverCluster) -> None:
    """Both servers accept sessions and see them end."""
    ids = await asyncio.gather(*(on.submit("exit 0", key=f"at {place}", first=place) for place in range(2)))
    for session_id in ids:
        for server in on.servers:
            await on.wait_for_state(session_id, "completed", at=server)
