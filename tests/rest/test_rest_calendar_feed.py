"""The calendar feed: a secret, renewable address that gives access to the bookings only."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from icalendar import Calendar

from rest_server import RestServer

RENEW = "mutation { renew_calendar_feed { ... on RenewCalendarFeedSuccess { mine all } } }"
RESERVE = "mutation ($input: ReserveInput!) { reserve(input: $input) { __typename ... on Error { message } } }"


def answer(client: httpx.Client, query: str, **variables: Any) -> Any:
    body = client.post("/graphql", json={"query": query, "variables": variables}).json()
    assert "errors" not in body, body
    (found,) = body["data"].values()
    return found


def get(server: RestServer, path: str, **headers: str) -> httpx.Response:
    return httpx.get(f"{server.address}{path}", headers=headers, timeout=60)


def test_a_calendar_feed_shows_bookings_until_its_address_is_renewed(server: RestServer) -> None:
    starts_at = datetime.fromtimestamp(time.time() // 3600 * 3600, UTC) + timedelta(days=2)
    window = {"starts_at": starts_at.isoformat(), "ends_at": (starts_at + timedelta(hours=3)).isoformat()}
    with server.client() as client:
        assert answer(client, RESERVE, input={"name": "feed", **window})["__typename"] == "BookingSuccess"
        first = answer(client, RENEW)
        for path in (first["mine"], first["all"]):
            found = get(server, path)
            assert (found.status_code, found.headers["content-type"]) == (200, "text/calendar; charset=utf-8")
            events = [one for one in Calendar.from_ical(found.text).walk("VEVENT") if "feed" in one["summary"]]
            (event,) = events
            assert (event.decoded("dtstart"), event.decoded("dtend")) == (starts_at, starts_at + timedelta(hours=3))
            assert event["summary"].startswith("feed: 1 GPU (")
        second = answer(client, RENEW)
        assert get(server, first["mine"]).status_code == 404
        assert get(server, second["mine"]).status_code == 200
        answer(client, 'mutation { give_back_reservation(name: "feed") { __typename } }')
        assert "feed: " not in get(server, second["all"]).text


@pytest.mark.parametrize("path", ["/calendar.ics", "/calendar.ics?user=root", "/calendar.ics?user=root&secret=guessed"])
def test_a_wrong_feed_address_gets_404_and_instructions(server: RestServer, path: str) -> None:
    found = get(server, path)
    assert found.status_code == 404
    assert "renew_calendar_feed" in found.text


def test_the_secret_of_a_feed_is_not_accepted_as_a_key(server: RestServer) -> None:
    with server.client() as client:
        secret = answer(client, RENEW)["mine"].partition("secret=")[2]
        keys = answer(client, "{ api_keys { id } }")
        user = answer(client, "{ me { name } }")["name"]
    assert not any(key["id"].startswith("feed_") for key in keys)
    for token in (secret, f"feed_{user}.{secret}"):
        assert get(server, "/queue", authorization=f"Bearer {token}").status_code == 401
