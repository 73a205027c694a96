"""Metrics of a server that runs sessions, its dashboard and alert rules."""

import json
import shutil
import subprocess
import sysconfig
from collections.abc import AsyncIterator

import httpx
import pytest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from aliquot.cli.acceptance.cluster_view import until_joined
from aliquot.cli.acceptance.processes import OwnServer
from e2e_sessions import submit, until, until_state
from metrics_promql import DASHBOARD, DOCKER, RULES, dashboard_expressions, exposed, faults, named, rule_expressions

pytestmark = pytest.mark.anyio

HALF = {"cuda.shares": "0.5"}
PROMTOOL = shutil.which("promtool") or shutil.which("promtool", path=sysconfig.get_path("scripts"))
"""`scripts/test` extracts it from Debian's package if it is missing."""
JSON_LOG = {"ALIQUOT_LOG_FORMAT": "json", "ALIQUOT_QUEUE_BACKLOG": "2", "ALIQUOT_READINGS_INTERVAL_S": "0.2"}


@pytest.fixture
async def server() -> AsyncIterator[OwnServer]:
    """Two mock nodes with eight H100 each, logging JSON."""
    async with OwnServer("--demo", environment=JSON_LOG) as own:
        async with own.client() as client:
            await until_joined(client, agents=2)
        yield own


async def scrape(server: OwnServer, **headers: str) -> str:
    async with httpx.AsyncClient(timeout=60) as http:
        answer = await http.get(f"{server.url}/metrics", headers={"authorization": f"Bearer {server.token}", **headers})
    assert answer.status_code == 200, answer.text
    return answer.text


async def families(server: OwnServer) -> dict[str, Metric]:
    return {family.name: family for family in text_string_to_metric_families(await scrape(server))}


async def value(server: OwnServer, family: str, **labels: str) -> float:
    """Sum of a family's samples that have these labels."""
    found = (await families(server))[family].samples
    return sum(sample.value for sample in found if labels.items() <= sample.labels.items())


def logged(server: OwnServer, event: str) -> list[dict[str, object]]:
    """Lines of the server's log for an event."""
    lines = [
        json.loads(line) for line in (server.folder / "server.log").read_text().splitlines() if line.startswith("{")
    ]
    return [line for line in lines if line.get("event") == event]


async def run_sessions(server: OwnServer) -> str:
    """One session that completes, one that fails, one running, and three pending that do not fit beside it."""
    async with server.client() as client:
        await until_state(client, await submit(client, "true", HALF), "completed")
        await until_state(client, await submit(client, "exit 3", HALF), "failed")
        running = await submit(client, "SECRET=hunter2 exec sleep 600", {"cuda.shares": "0.5"})
        await until_state(client, running, "running")
        for _ in range(3):
            await submit(client, "true", {"cuda.device": "8"}, cluster_size=2)
    return running


async def test_sessions_appear_in_metrics_logs_dashboards_and_alerts(server: OwnServer) -> None:
    running = await run_sessions(server)

    async def held() -> bool:
        return await value(server, "aliquot_device_held_seconds") > 0

    await until(held)
    assert await value(server, "aliquot_sessions_ended", outcome="completed") == 1
    assert await value(server, "aliquot_session_failures", reason="exit_code") == 1
    assert await value(server, "aliquot_sessions_started") == 3
    assert await value(server, "aliquot_sessions", state="running") == 1
    assert await value(server, "aliquot_sessions", state="queued") == 3
    assert await value(server, "aliquot_gpus", status="held") == 0.5
    assert await value(server, "aliquot_placements", outcome="carried_out") == 3
    assert await value(server, "aliquot_leader") == await value(server, "aliquot_database_up") == 1
    text = await scrape(server)
    assert running not in text

    async def is_warned() -> bool:  # the backlog is checked once a second
        return bool(logged(server, "queue_backlog"))

    await until(is_warned)
    check_log(server, running)
    check_drawings(await families(server))
    if PROMTOOL is not None:
        promtool("metrics", given=text)


def check_log(server: OwnServer, running: str) -> None:
    """One line per allocation, one for the backlog, and nothing of commands."""
    given = {line["session_id"]: line for line in logged(server, "session_allocated_devices")}
    told = given[running]
    assert (told["attempt"], told["shares"], told["level"]) == (1, [0.5], "INFO")
    assert len(told["devices"]) == len(told["agents"]) == 1  # type: ignore[arg-type] # lists of JSON
    assert told["pass_number"]
    (backlog,) = logged(server, "queue_backlog")
    assert (backlog["waiting"], backlog["threshold"]) == (3, 2)
    assert "hunter2" not in (server.folder / "server.log").read_text()


def check_drawings(found: dict[str, Metric]) -> None:
    """Every expression uses exposed metrics."""
    known = exposed(found.values())
    assert [fault for drawn in dashboard_expressions() for fault in faults(*drawn, known=known)] == []
    assert [fault for rule in rule_expressions() for fault in faults(*rule, known=known)] == []
    assert faults("x", "sum by (nobody) (rate(aliquot_nothing_total[5m]))", "", known=known) == [
        "x: there is no aliquot_nothing_total",
        "x: nothing has the label nobody",
    ]
    drawn = {name for _, expression, _ in dashboard_expressions() for name in named(expression).metrics}
    left_out = {name for name in known if name.startswith("aliquot_")} - drawn
    assert {name for name in left_out if not name.endswith(("_count", "_sum", "_created"))} == {
        "aliquot_build_info",
        "aliquot_database_up",
        "aliquot_device_blocked",
    }


def promtool(*words: str, given: str = "") -> None:
    """Check with promtool."""
    subprocess.run([str(PROMTOOL), "check", *words], input=given.encode(), check=True, timeout=60)


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")
def test_prometheus_accepts_the_rules_and_the_configuration() -> None:
    promtool("rules", str(RULES))
    promtool("config", "--syntax-only", str(DOCKER / "prometheus" / "prometheus.yml"))


def test_the_grafana_dashboard_has_no_gaps_and_uses_its_data_source_variable() -> None:
    board = json.loads(DASHBOARD.read_text())
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        columns, rows = range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])
        cells = {(x, y) for x in columns for y in rows}
        assert not taken & cells, panel["title"]
        taken |= cells
        assert panel["type"] == "row" or panel["datasource"]["uid"] == "${datasource}", panel["title"]
    assert len(taken) == 24 * (1 + max(y for _, y in taken))
