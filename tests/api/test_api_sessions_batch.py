"""Batch and change mutations of sessions: the values passed to the writer, and the answers."""

from typing import Any

import pytest

import api_views as views
from aliquot_schema.requests import NewFallback
from aliquot_schema.states import SessionState
from api_server import ApiServer

pytestmark = pytest.mark.anyio

MANY = """mutation ($input: CreateSessionsInput!) { create_sessions(input: $input) {
  __typename ... on CreateSessionsSuccess { results { created session { id name } } revision } } }"""
ONE: dict[str, Any] = {"command": {"argv": ["true"]}, "slots": [{"slot": "cuda.device", "amount": "2"}]}


async def test_a_batch_reaches_the_writer_with_its_local_names_and_terms(server: ApiServer) -> None:
    train = {
        **ONE,
        "name": "train",
        "local_name": "a",
        "pool": "big",
        "labels": [{"name": "disk", "value": "fast"}],
        "models": ["*H100*"],
        "fallbacks": [{"slots": [{"slot": "cuda.device", "amount": "1"}], "after_s": 60}],
        "array": "0-9",
        "max_parallel": 2,
        "held": True,
    }
    test = {**ONE, "name": "test", "depends_on": [{"session_id": "a"}]}
    made = (await server.data(MANY, input={"sessions": [train, test]}))["create_sessions"]
    assert [item["session"]["name"] for item in made["results"]] == ["train", "test"]
    first, second = server.writer.requests
    assert (first.local_name, first.pool, first.array, first.max_parallel, first.held) == ("a", "big", "0-9", 2, True)
    assert first.fallbacks == (NewFallback(slots=(("cuda.device", "1"),), after_s=60.0),)
    assert (first.labels, first.models) == ((("disk", "fast"),), ("*H100*",))
    assert second.depends_on == (("a", "after_ok"),)


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("hold_session", SessionState.QUEUED, "held"),
        ("release_session", SessionState.HELD, "queued"),
        ("retry_session", SessionState.FAILED, "queued"),
    ],
)
async def test_a_session_change_is_applied_and_a_stale_version_is_refused(
    server: ApiServer, name: str, before: SessionState, after: str
) -> None:
    server.cluster.sessions = [views.session(1, before)]
    kind = "".join(word.title() for word in name.split("_"))
    query = f"""mutation ($input: ChangeSessionInput!) {{ {name}(input: $input) {{ __typename
      ... on {kind}Success {{ session {{ state version }} }} ... on Error {{ code }} }} }}"""
    changed = (await server.data(query, input={"id": "ses_1", "expected_version": 1}))[name]
    assert changed["session"] == {"state": after, "version": 2}
    stale = (await server.data(query, input={"id": "ses_1", "expected_version": 1}))[name]
    assert stale["code"] == "version_conflict"
