"""Acknowledged commits are found again, however the server ended."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import store_committer
from aliquot.service.ports import SessionQuery
from aliquot.store.hash_chain import verify
from store_places import Place

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("callers", [1, 16])
async def test_a_killed_server_loses_no_acknowledged_commit(place: Place, callers: int) -> None:
    with _committer(place, callers=callers) as process:
        acknowledged = [_line(process) for _ in range(120)]
        process.kill()
        process.wait(timeout=30)
        rest = process.stdout.read().decode() if process.stdout else ""
    acknowledged += rest.split("\n")[:-1]

    store = place.store()
    loaded = await store.open()
    stored = {session.id for session in await store.sessions(SessionQuery(limit=100_000))}
    assert {*acknowledged} <= stored
    assert loaded.revision == len(stored), "half of a batch was written, or an event without its row"
    await store.close()

    database = place.database()
    await database.open()
    assert await database.read(verify) == len(stored)
    await database.close()


@contextmanager
def _committer(place: Place, *, callers: int) -> Iterator[subprocess.Popen[bytes]]:
    script = Path(store_committer.__file__)
    arguments = [sys.executable, script, place.url, place.folder, str(callers)]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, env=os.environ)
    try:
        yield process
    finally:
        process.kill()
        process.wait(timeout=30)
        if process.stdout:
            process.stdout.close()


def _line(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline().decode()
    assert line, "the committer ended by itself"
    return line.strip()
