"""Forecasts of real servers: history grows, a pending session gets a forecast, its outcome is recorded."""

import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from aliquot.cli.acceptance.cluster_view import until_joined
from aliquot.cli.acceptance.processes import OwnServer
from aliquot.client import Client
from e2e_sessions import submit, until, until_state
from failover_cluster import failover_cluster

pytestmark = pytest.mark.anyio

TWO_GPUS: Final = Path(__file__).parents[1] / "data" / "accelerators" / "two_gpus.toml"
RUNS: Final = 52
"""More than the ended sessions that forecasts need."""
SESSION: Final = """
query ($id: ID!) {
  session(id: $id) {
    state
    forecast {
      now { starts_now within_hour runs_known unknown start { p10 p50 p90 } end { p50 } }
      at_submission { made_at unknown start { p10 p50 p90 } }
      came_true
      missing
    }
  }
}
"""
ACCURACY: Final = "{ forecast_accuracy { waited unknown at_once runs missing groups { group count } } }"
CHANGES: Final = "query ($id: ID!) { session_why(id: $id) { is_forecasting remedies { kind p50_earlier } } }"
CANCEL: Final = """
mutation ($input: CancelSessionInput!) { cancel_session(input: $input) { __typename ... on Error { code message } } }
"""
GPU: Final = {"cuda.device": "1"}


async def forecast(client: Client, session_id: str) -> dict[str, Any]:
    found = (await client.execute(SESSION, {"id": session_id}))["session"]["forecast"]
    return {} if found is None else dict(found)


async def accuracy(client: Client) -> dict[str, Any]:
    return dict((await client.execute(ACCURACY))["forecast_accuracy"])


async def wait_for_forecast(client: Client, session_id: str) -> dict[str, Any]:
    """Wait until a session has a forecast with a band."""

    async def look() -> dict[str, Any] | None:
        found = await forecast(client, session_id)
        return found if found.get("now") and found["now"]["start"] else None

    return await until(look)


async def changes(client: Client, session_id: str) -> dict[str, Any]:
    return dict((await client.execute(CHANGES, {"id": session_id}))["session_why"])


async def until_forecast(client: Client, session_id: str) -> None:
    """Wait until the process has forecast the changes of a session."""

    async def look() -> bool:
        return not (await changes(client, session_id))["is_forecasting"]

    await until(look)


async def until_judged(client: Client, session_id: str) -> dict[str, Any]:
    """Wait until a started session has the outcome of its forecast."""

    async def look() -> dict[str, Any] | None:
        found = await forecast(client, session_id)
        return found if found["came_true"] is not None else None

    return await until(look)


async def until_process(server: OwnServer, *, other_than: int = 0) -> int:
    """Wait for the forecast process of a server; returns its pid."""

    async def look() -> int | None:
        found = forecast_processes(server.pid)
        return next((pid for pid in found if pid != other_than), None)

    return await until(look)


def forecast_processes(server: int) -> list[int]:
    """Forecast processes started by a server."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and b"foresight.process" in (entry / "cmdline").read_bytes():
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
                found += [int(entry.name)] if int(parent) == server else []
        except OSError:
            continue
    return found


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def grow_history(client: Client) -> None:
    """End enough sessions."""
    for session_id in [await submit(client, "true", {"cuda.shares": "0.1"}) for _ in range(RUNS)]:
        await until_state(client, session_id, "completed")


async def wait_behind_a_full_cluster(client: Client) -> tuple[list[str], str]:
    """Two sessions that hold the GPUs until they are ended, and one that waits for them."""
    holders = [await submit(client, "sleep 600", GPU) for _ in range(2)]
    for holder in holders:
        await until_state(client, holder, "running")
    return holders, await submit(client, "true", GPU)


async def cancel(client: Client, session_id: str) -> None:
    await client.change(CANCEL, {"input": {"id": session_id}})


async def course(server: OwnServer) -> tuple[str, str]:
    """A pending session gets a forecast, starts, and its outcome counts, also after a restart.

    Returns:
        The two sessions that waited and ended.
    """
    async with server.client() as client:
        await until_joined(client, agents=1)
        early = await accuracy(client)
        assert early["groups"] == []
        await grow_history(client)
        holders, waiting = await wait_behind_a_full_cluster(client)
        told = await wait_for_forecast(client, waiting)
        band = told["at_submission"]["start"]
        assert band["p10"] <= band["p50"] <= band["p90"]
        assert told["now"]["runs_known"] >= RUNS
        assert (told["missing"], told["came_true"], told["now"]["starts_now"]) == (None, None, False)
        assert (await changes(client, waiting))["is_forecasting"]
        await until_forecast(client, waiting)
        await cancel(client, holders[0])
        await until_state(client, waiting, "completed")
        ended = await until_judged(client, waiting)
        assert ended["now"] is None
        assert ended["at_submission"]["start"] == band
        other = await submit(client, "true", {"cuda.device": "2"})
        second = (await wait_for_forecast(client, other))["at_submission"]

        async def counted() -> bool:
            return (await accuracy(client))["waited"] == 1

        await until(counted)
    await server.stop()
    await server.start()
    async with server.client() as client:
        assert (await wait_for_forecast(client, other))["at_submission"] == second
        assert (await forecast(client, waiting))["at_submission"]["start"] == band

        async def started() -> bool:
            return (await accuracy(client))["missing"] is None

        await until(started)
        found = await accuracy(client)
        assert found["waited"] == 1
        assert next(one["count"] for one in found["groups"] if one["group"] == "all") == 1
        assert found["runs"] > RUNS
        await cancel(client, holders[1])
        await until_state(client, other, "completed")
        await until_judged(client, other)
    return waiting, other


async def test_a_forecast_is_shown_evaluated_and_kept_across_a_restart() -> None:
    async with OwnServer("--accelerators", str(TWO_GPUS)) as server:
        waited = await course(server)

        async def written() -> bool:
            with closing(sqlite3.connect(server.data_folder / "server" / "aliquot.db")) as database:
                outcomes = dict(database.execute("SELECT session_id, outcome FROM forecasts WHERE age_s = 0"))
            return all(outcomes.get(session_id) == "started" for session_id in waited)

        await until(written)


async def test_a_forecast_is_shown_evaluated_and_kept_on_postgresql(database_url: str) -> None:
    async with OwnServer("--accelerators", str(TWO_GPUS), "--database", database_url) as server:
        await course(server)


async def test_a_killed_forecast_process_comes_back_and_ends_with_its_server() -> None:
    async with OwnServer("--accelerators", str(TWO_GPUS)) as server:
        async with server.client() as client:
            await until_joined(client, agents=1)
            await grow_history(client)
            _, waiting = await wait_behind_a_full_cluster(client)
            await wait_for_forecast(client, waiting)
            first = await until_process(server)
            assert os.getpriority(os.PRIO_PROCESS, first) > os.getpriority(os.PRIO_PROCESS, server.pid)
            os.kill(first, signal.SIGKILL)

            async def missed() -> bool:
                found = await forecast(client, waiting)
                return found["missing"] is not None and found["now"]["start"] is not None

            await until(missed)
            second = await until_process(server, other_than=first)
            later = await submit(client, "true", GPU)
            assert (await wait_for_forecast(client, later))["missing"] is None
        await server.kill()

        async def gone() -> bool:
            return not is_alive(second)

        await until(gone)


async def test_with_forecasts_switched_off_no_process_runs_and_the_reason_is_shown() -> None:
    off = {"ALIQUOT_FORECASTS": "false"}
    async with OwnServer("--accelerators", str(TWO_GPUS), environment=off) as server, server.client() as client:
        await until_joined(client, agents=1)
        _, waiting = await wait_behind_a_full_cluster(client)
        found = await forecast(client, waiting)
        assert found["now"] is None
        assert found["missing"] == "forecasts are switched off"
        assert forecast_processes(server.pid) == []


async def test_a_follower_shows_the_leaders_forecasts_and_continues_them_as_leader(database_url: str) -> None:
    async with failover_cluster(database_url, database_url) as on:
        leader, follower = on.servers
        await on.wait_for_standing(follower, role="follower", leader_address=leader.url)
        for number in range(9):
            waiting = await on.submit("sleep 600", key=f"s{number}")

        async def told(server: OwnServer) -> dict[str, Any] | None:
            found = await forecast(on.client(server), waiting)
            return found if found.get("now") and found["at_submission"] else None

        first = await until(lambda: told(leader))
        assert first["now"]["unknown"].startswith("0 sessions have ended so far")
        assert (await until(lambda: told(follower)))["at_submission"] == first["at_submission"]
        await leader.stop()
        assert await on.leader(among=[follower]) is follower
        again = await until(lambda: told(follower))
        assert again["at_submission"] == first["at_submission"]
        await until_process(follower)
