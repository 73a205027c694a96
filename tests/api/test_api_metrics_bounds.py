"""Bounds of the metrics: no labels from client input, and no scrape delays other requests."""

import asyncio
import time

import pytest
from msgspec.structs import replace

from aliquot.service.metrics.metrics import FAILURES
from aliquot_schema.ids import SessionId, UserId
from aliquot_schema.sessions import Failure
from aliquot_schema.states import SessionState
from allocation_devices import gpu
from api_server import BEARER
from core_records import agent, session
from metrics_cluster import Scraped, node, scraped
from service_events import event_of

pytestmark = pytest.mark.anyio

ODD = ('"', "\\", "\n", "{}", "é", "🦊", "a" * 300, "__name__", 'x="y"', "%0A", "../..", "0", "null")
QUERY = "query {name} {{ __typename }}"
NODES = 1_000


async def series(server: Scraped) -> set[tuple[str, tuple[tuple[str, str], ...]]]:
    """All series except the process's own."""
    families = (await server.families()).values()
    return {(sample.name, tuple(sorted(sample.labels.items()))) for family in families for sample in family.samples}


async def ask_oddly(server: Scraped, odd: str, name: str) -> None:
    """Send requests with odd names."""
    http = server.http
    await http.get(f"/api/v1/{odd.encode().hex()}", headers=BEARER)
    await http.request("PROPFIND", f"/{odd.encode().hex()}", headers=BEARER)
    body = {"query": QUERY.format(name=name), "operationName": name}
    assert (await http.post("/graphql", headers=BEARER, json=body)).status_code == 200
    assert (await http.post("/graphql", headers=BEARER, json={"query": f"query {{ {odd} }}"})).status_code == 200
    await http.post("/graphql", headers=BEARER, json={**body, "operationName": odd})
    await http.get("/metrics", headers={"authorization": f"Bearer {odd.encode().hex()}", "accept": odd.encode().hex()})


def end_oddly(server: Scraped, odd: str, number: int) -> None:
    """End sessions of users with odd names, for unknown reasons."""
    ended = session(
        SessionState.FAILED,
        id=SessionId(f"ses_{number}"),
        owner=UserId(odd),
        name=odd,
        tags={odd: odd},
        started_us=2,
        failure=Failure(code=odd, message=odd),
    )
    server.office.state.load([ended], revision=server.office.state.revision, ended_complete=True)
    event = event_of(ended, "session.failed", number=number, actor=odd, request_id=odd)
    server.measures.take(event)
    server.measures.take(replace(event, kind=odd))


async def test_text_from_users_does_not_create_metric_labels() -> None:
    async with scraped() as server:
        server.join([node(1)])
        shown = []
        for number, odd in enumerate(ODD):
            await ask_oddly(server, odd, f"odd_{number}")
            end_oddly(server, odd, number + 1)
            shown.append(await series(server))
        assert shown[-1] == shown[5]
        assert await server.value("aliquot_session_failures_total", reason="other") == len(ODD)
        assert await server.value("aliquot_requests_total", face="page", kind="write", outcome="refused") >= len(ODD)
        assert "other" not in FAILURES


async def test_sessions_and_users_are_in_no_label() -> None:
    async with scraped() as server:
        server.join([node(1)])
        end_oddly(server, "Rosalind", 1)
        text = (await server.http.get("/metrics", headers=BEARER)).text
        assert "Rosalind" not in text
        assert "ses_1" not in text


async def test_device_models_with_special_characters_are_exported_unchanged() -> None:
    printable = [odd[:255] for odd in ODD if odd.isprintable()]  # others are refused when an agent joins
    async with scraped() as server:
        devices = tuple(replace(gpu(index), model=odd) for index, odd in enumerate(printable))
        server.join([agent("a", node="n", devices=devices)])
        samples = (await server.families())["aliquot_device_healthy"].samples
        assert [sample.labels["model"] for sample in samples] == printable


async def test_8000_devices_are_scraped_while_others_are_answered() -> None:
    async with scraped() as server:
        server.join(node(number) for number in range(NODES))
        began_s = time.thread_time()
        server.look()
        assert time.thread_time() - began_s < 0.2  # of the event loop's time
        began_s = time.process_time()
        scraping = asyncio.create_task(server.http.get("/metrics", headers=BEARER))
        answered = 0
        while not scraping.done():
            assert (await server.http.get("/healthz")).status_code == 200
            answered += not scraping.done()
        text = (await scraping).text
        assert time.process_time() - began_s < 20
        assert text.count("\naliquot_device_utilization_ratio{") == NODES * 8
        assert answered >= 5


async def test_too_many_simultaneous_scrapes_get_503_and_retry_after() -> None:
    async with scraped() as server:
        server.join(node(number) for number in range(NODES // 20))
        answers = await asyncio.gather(*(server.http.get("/metrics", headers=BEARER) for _ in range(12)))
        codes = sorted(answer.status_code for answer in answers)
        assert set(codes) == {200, 503}
        assert all(answer.headers["retry-after"] == "5" for answer in answers if answer.status_code == 503)
        assert (await server.http.get("/metrics", headers=BEARER)).status_code == 200
