"""Log ranges by query: from a byte offset, from the end, and refusals."""

from typing import Any

import pytest

from api_server import ApiServer

pytestmark = pytest.mark.anyio

PIECE = """query ($offset: BigInt! = 0, $bytes_max: Int! = 100, $rank: Int! = 0) {
  session_log(id: "ses_1", offset: $offset, bytes_max: $bytes_max, rank: $rank) {
    kernel_id attempt offset next_offset length left_out has_more text at_end } }"""


async def test_a_log_part_is_read_from_an_offset_or_from_the_end(server: ApiServer) -> None:
    first = (await server.data(PIECE, bytes_max=4))["session_log"]
    assert first == {
        "kernel_id": "ses_1.1.0",
        "attempt": 1,
        "offset": 0,
        "next_offset": 4,
        "length": 8,
        "left_out": 0,
        "has_more": True,
        "text": "one\n",
        "at_end": False,
    }
    rest = (await server.data(PIECE, offset=first["next_offset"]))["session_log"]
    assert (rest["text"], rest["has_more"], rest["at_end"]) == ("two\n", False, True)
    assert (await server.data(PIECE, offset="-4"))["session_log"] == rest


@pytest.mark.parametrize(
    ("variables", "field"),
    [({"bytes_max": 3}, "bytes_max"), ({"bytes_max": 2**20 + 1}, "bytes_max"), ({"rank": -1}, "rank")],
)
async def test_an_invalid_log_range_is_refused(server: ApiServer, variables: dict[str, Any], field: str) -> None:
    (error,) = (await server.post(PIECE, **variables))["errors"]
    assert error["extensions"] == {"code": "invalid_request", "field": field}
