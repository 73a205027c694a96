"""A log ahead of the machine's clock: refused if by more than a day, otherwise followed with an alert."""

import sqlite3
from contextlib import closing

import pytest

from aliquot.cli.acceptance.processes import OwnServer, ServerFailed
from aliquot.store.open import SQLITE_FILE
from e2e_sessions import until

pytestmark = pytest.mark.anyio

ALONE = ("--no-local-agents", "--stopped")
"""`--stopped` adds the first event."""
DAY_US = 86_400_000_000


def put_ahead(server: OwnServer, by_us: int) -> int:
    """Shift the log's clock ahead; returns the time of its end."""
    with closing(sqlite3.connect(server.data_folder / SQLITE_FILE)) as connection:
        connection.execute("UPDATE counter SET at_us = at_us + ?", (by_us,))
        connection.commit()
        return int(connection.execute("SELECT at_us FROM counter").fetchone()[0])


def end_us(server: OwnServer) -> int:
    with closing(sqlite3.connect(server.data_folder / SQLITE_FILE)) as connection:
        return int(connection.execute("SELECT at_us FROM counter").fetchone()[0])


async def test_a_log_20_000_days_ahead_is_refused_until_the_operator_accepts_the_clock() -> None:
    server = OwnServer(*ALONE)
    try:
        await server.start()
        assert await server.stop() == 0
        ahead_us = put_ahead(server, 20_000 * DAY_US)
        refusal = r"(?s)ended with 2:.*20,000 days earlier.*start once with `aliquot serve --accept-clock`"
        with pytest.raises(ServerFailed, match=refusal):
            await server.start()
        assert end_us(server) == ahead_us, "nothing was changed"
        usual, server._options = server._options, (*server._options, "--accept-clock")
        await server.start()
        assert await server.stop() == 0
        assert end_us(server) < ahead_us - 19_999 * DAY_US
        server._options = usual
        await server.start()
        assert await server.stop() == 0
    finally:
        await server.__aexit__(None, None, None)


async def test_a_log_an_hour_ahead_is_corrected_with_an_alert() -> None:
    server = OwnServer(*ALONE)
    try:
        await server.start()
        assert await server.stop() == 0
        ahead_us = put_ahead(server, DAY_US // 24)
        await server.start()

        async def told() -> str | None:
            async with server.client() as client:
                answer = await client.execute("{ alerts { edges { node { rule message } } } }")
            found = [edge["node"] for edge in answer["alerts"]["edges"]]
            return next((one["message"] for one in found if one["rule"] == "clock_corrected"), None)

        words = await until(told)
        assert "the newest event was 60 minutes ahead of the clock" in words
        assert await server.stop() == 0
        assert end_us(server) < ahead_us - DAY_US // 25
    finally:
        await server.__aexit__(None, None, None)
