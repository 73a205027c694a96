"""`aliquot session forward`, and the client's streams, where the session may not be entered."""

import asyncio
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from aliquot.cli import main
from aliquot.client.config import Place
from aliquot.client.errors import Refused
from aliquot.client.streams import SessionStream
from aliquot_schema.errors import Unauthenticated
from api_server import TOKEN, ApiServer
from session_sockets import PROJECT, REVOKE, TERMINAL, running_session, user_with_key

pytestmark = pytest.mark.anyio


async def forwarded(server: ApiServer, key: str, folder: Path) -> Result:
    token_file = folder / "key"
    token_file.write_text(key)
    words = ["session", "forward", "ses_1", "0:8888", "--server", f"http://127.0.0.1:{server.port}"]
    async with asyncio.timeout(60):
        return await asyncio.to_thread(CliRunner().invoke, main, [*words, "--token-file", str(token_file)])


@pytest.mark.parametrize("role", ["viewer", "user"])
async def test_a_session_that_may_not_be_entered_is_not_forwarded(server: ApiServer, tmp_path: Path, role: str) -> None:
    await running_session(server)
    _, key = await user_with_key(server, "mia", role, projects=[PROJECT])
    outcome = await forwarded(server, key, tmp_path)
    assert (outcome.exit_code, outcome.stdout) == (3, "")
    assert "Forbidden" not in outcome.stderr
    assert not server.streams.opened


async def test_the_right_to_enter_is_checked_without_a_connection_to_the_session(server: ApiServer) -> None:
    await running_session(server)
    place = Place(url=f"http://127.0.0.1:{server.port}", token=TOKEN)
    await SessionStream.check(place, "ses_1", rank=0)
    assert not server.streams.opened
    with pytest.raises(Refused, match="no rank 7"):
        await SessionStream.check(place, "ses_1", rank=7)
    with pytest.raises(Refused, match="no session"):
        await SessionStream.check(place, "ses_2", rank=0)


async def test_a_stream_whose_key_is_revoked_ends_as_unauthenticated(server: ApiServer) -> None:
    key_id, key = await user_with_key(server, "mia", "user")
    await running_session(server, owner="mia")
    stream = await SessionStream.open(Place(url=f"http://127.0.0.1:{server.port}", token=key), "ses_1", TERMINAL)
    await server.data(REVOKE, id=key_id)
    with pytest.raises(Unauthenticated, match="revoked"):
        await stream.read()
    await stream.close()
