"""The metrics endpoint: values, access and formats."""

import gzip

import pytest
from msgspec.structs import replace
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families

from aliquot.service.metrics.health import Availability, HealthCondition
from aliquot_schema.intervals import Intervals
from aliquot_schema.resources.devices import DeviceHealth
from aliquot_schema.sessions import HELD_BY_ARRAY, ArrayTasks
from aliquot_schema.states import AgentState, KernelState, SessionState
from allocation_devices import slice_of
from api_server import BEARER
from core_records import agent, kernel, lease_of, session
from metrics_cluster import NOW_US, node, scraped

pytestmark = pytest.mark.anyio

A_TOKEN = "only-for-the-metrics-0123456789"


async def test_device_metrics_use_base_units() -> None:
    async with scraped() as server:
        server.join([node(1, devices=2)])
        here = {"node": "n1", "agent": "a1", "device": "GPU-0001-0"}
        assert await server.value("aliquot_device_utilization_ratio", **here) == 0.5
        assert await server.value("aliquot_device_memory_used_bytes", **here) == 20e9
        assert await server.value("aliquot_device_memory_bytes", **here) == 80e9
        assert await server.value("aliquot_device_temperature_celsius", **here) == 41.0
        assert await server.value("aliquot_device_power_watts", **here) == 300.0
        assert await server.value("aliquot_device_held_ratio", **here) == 0.0
        assert await server.value("aliquot_device_healthy", **here) == 1.0
        assert await server.value("aliquot_gpus", status="free") == 2.0


async def test_metrics_show_the_held_share_of_each_device_and_of_all_gpus() -> None:
    async with scraped() as server:
        rank = kernel(KernelState.RUNNING)
        lease = lease_of(rank, device="cuda0", spec={"cuda.shares": {"cuda0": 250}}, owner="ann")
        server.join([agent()])
        records = (session(SessionState.RUNNING, started_us=5), rank, lease)
        server.office.state.load(records, revision=server.office.state.revision, ended_complete=True)
        assert await server.value("aliquot_device_held_ratio", device="cuda0") == 0.25
        assert await server.value("aliquot_gpus", status="held") == 0.25
        assert await server.value("aliquot_gpus", status="free") == 3.75
        assert await server.value("aliquot_gpu_fragmentation_ratio") == pytest.approx(0.75 / 3.75)
        assert await server.value("aliquot_sessions", state="running") == 1.0
        assert await server.value("aliquot_users_holding") == 1.0


async def test_a_device_shared_by_two_agents_is_counted_once_and_its_slices_are_not_counted() -> None:
    async with scraped() as server:
        whole = agent().devices[0]
        server.join([agent("b", node="n", devices=(whole,)), agent("a", node="n", devices=(whole, slice_of(whole, 1)))])
        families = await server.families()
        (sample,) = families["aliquot_device_healthy"].samples
        assert (sample.labels["agent"], sample.labels["device"]) == ("a", whole.id)


async def test_a_device_that_is_leaving_one_agent_is_shown_for_the_other_agent() -> None:
    async with scraped() as server:
        whole = agent().devices[0]
        leaving = replace(whole, health=DeviceHealth.LEAVING)
        server.join([agent("a", node="n", devices=(leaving,)), agent("b", node="n", devices=(whole,))])
        families = await server.families()
        (sample,) = families["aliquot_device_healthy"].samples
        assert (sample.labels["agent"], sample.value) == ("b", 1.0)


async def test_a_leaving_device_has_no_health_sample() -> None:
    async with scraped() as server:
        leaving = replace(agent().devices[0], health=DeviceHealth.LEAVING)
        server.join([agent("a", node="n", devices=(leaving, agent().devices[1]))])
        families = await server.families()
        assert [sample.value for sample in families["aliquot_device_healthy"].samples] == [1.0]
        assert await server.value("aliquot_device_held_ratio", device=leaving.id) == 0.0


async def test_devices_of_lost_agents_and_lost_devices_are_not_shown() -> None:
    async with scraped() as server:
        gone = replace(agent().devices[0], health=DeviceHealth.GONE)
        broken = replace(agent().devices[1], health=DeviceHealth.UNHEALTHY)
        server.join([agent("lost", node="m", state=AgentState.LOST), agent("there", node="n", devices=(gone, broken))])
        families = await server.families()
        assert [sample.labels["device"] for sample in families["aliquot_device_healthy"].samples] == [broken.id]
        assert await server.value("aliquot_device_healthy", device=broken.id) == 0.0
        assert await server.value("aliquot_gpus", status="out_of_service") == 1.0
        assert await server.value("aliquot_agents", state="lost") == 1.0


async def test_queue_metrics_count_states_and_show_the_oldest_wait() -> None:
    async with scraped() as server:
        waiting = [session(id=f"ses_{number}", queued_us=NOW_US - number * 1_000_000) for number in (5, 60)]
        held = session(SessionState.HELD, id="ses_h", held_by="ann", queued_us=1)
        server.office.state.load((*waiting, held), revision=server.office.state.revision, ended_complete=True)
        assert await server.value("aliquot_sessions", state="queued") == 2.0
        assert await server.value("aliquot_sessions", state="held") == 1.0
        assert await server.value("aliquot_queue_oldest_wait_seconds") == 60.0


async def test_each_array_task_is_counted_once_as_queued_or_held() -> None:
    async with scraped() as server:
        tasks = ArrayTasks(waiting=Intervals.of(range(7)))
        turns = session(id="ses_t", tasks=replace(tasks, max_parallel=1))
        again = session(SessionState.HELD, id="ses_t_3", array_id="ses_t", array_index=3, held_by=HELD_BY_ARRAY)
        held = session(SessionState.HELD, id="ses_h", held_by="ann", tasks=tasks)
        server.office.state.load((turns, again, held), revision=server.office.state.revision, ended_complete=True)
        assert await server.value("aliquot_sessions", state="queued") == 7.0
        assert await server.value("aliquot_sessions", state="held") == 7.0


async def test_a_follower_shows_only_metrics_of_its_own_process() -> None:
    async with scraped() as server:
        server.join([node(1)])
        leading = set(await server.families())
        server.leads = False
        following = set(await server.families())
        assert await server.value("aliquot_leader") == 0.0
        assert {"aliquot_requests", "aliquot_database_up", "aliquot_event_loop_lag_seconds"} <= following < leading
        assert not any(name.startswith(("aliquot_device", "aliquot_gpu", "aliquot_session")) for name in following)


async def test_health_conditions_are_shown_by_code_without_their_message() -> None:
    wrong = HealthCondition(code="database_down", message="db.internal is away", is_fatal=True)
    async with scraped(conditions=(wrong,)) as server:
        assert await server.value("aliquot_condition", code="database_down") == 1.0
        assert await server.value("aliquot_condition", code="disk_low") == 0.0
        assert await server.value("aliquot_ready") == 0.0
        answer = await server.http.get("/metrics", headers=BEARER)
        assert "db.internal" not in answer.text


async def test_metrics_without_valid_credentials_get_401() -> None:
    async with scraped() as server:
        answer = await server.http.get("/metrics")
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert "aliquot_" not in answer.text
        assert (await server.http.get("/metrics", headers={"authorization": f"Bearer {A_TOKEN}"})).status_code == 401


async def test_the_metrics_token_is_valid_only_for_metrics() -> None:
    async with scraped(token=A_TOKEN) as server:
        shown = {"authorization": f"Bearer {A_TOKEN}"}
        assert (await server.http.get("/metrics", headers=shown)).status_code == 200
        assert (await server.http.get("/metrics", headers=BEARER)).status_code == 200
        asked = await server.http.post("/graphql", headers=shown, json={"query": "{ __typename }"})
        assert asked.status_code == 401
        wrong = {"authorization": f"Bearer {A_TOKEN}x"}
        assert (await server.http.get("/metrics", headers=wrong)).status_code == 401


async def test_open_metrics_need_no_key() -> None:
    async with scraped(is_open=True) as server:
        assert (await server.http.get("/metrics")).status_code == 200


async def test_openmetrics_format_is_served_when_requested() -> None:
    async with scraped(is_open=True) as server:
        server.join([node(1)])
        accept = "application/openmetrics-text; version=1.0.0,text/plain;version=0.0.4;q=0.5"
        answer = await server.http.get("/metrics", headers={"accept": accept})
        assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
        # An OpenMetrics info is a gauge in the text format, and keeps its full name.
        found = {f"{family.name}{'_info' * (family.type == 'info')}" for family in openmetrics_families(answer.text)}
        plain = await server.http.get("/metrics", headers={"accept": "text/plain"})
        assert plain.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert found == {family.name for family in text_string_to_metric_families(plain.text)}


async def test_metrics_are_compressed_once() -> None:
    async with scraped(is_open=True) as server:
        server.join([node(1)])
        async with server.http.stream("GET", "/metrics", headers={"accept-encoding": "gzip"}) as answer:
            raw = b"".join([part async for part in answer.aiter_raw()])
        assert answer.headers["content-encoding"] == "gzip"
        assert gzip.decompress(raw).startswith(b"# HELP ")


def test_availability_is_the_share_of_time_in_which_the_server_was_ready() -> None:
    found = Availability()
    assert found.ratio() == 1.0
    found.note(30.0, is_ready=True)
    found.note(10.0, is_ready=False)
    assert found.ratio() == 0.75
    (family,) = found.seconds.collect()
    assert {sample.labels["ready"]: sample.value for sample in family.samples} == {"yes": 30.0, "no": 10.0}
