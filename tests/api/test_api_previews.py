"""Previews over HTTP."""

import pytest

import api_views as views
from api_server import ApiServer

pytestmark = pytest.mark.anyio

PREVIEW = """query ($input: CreateSessionInput!) { preview_session(input: $input) {
  __typename
  ... on SessionPreview {
    revision starts_now tasks_starting queue_position expected_start
    kernels { rank agent_id node_id resource_spec { slot devices { device_id amount } } }
    displaces { session_id owner cause has_run } waits { reason message } failure { code } order_estimate { seconds }
  }
  ... on Error { code message }
  ... on ImpossibleRequest { slot requested limit }
} }"""
SMALL = {"command": {"argv": ["/bin/true"]}, "slots": [{"slot": "cpu", "amount": "1"}]}


async def test_a_preview_shows_placement_start_and_preempted_sessions(server: ApiServer) -> None:
    shown = (await server.data(PREVIEW, input=SMALL))["preview_session"]
    assert shown == {
        "__typename": "SessionPreview",
        "revision": 41,
        "starts_now": False,
        "tasks_starting": 0,
        "queue_position": 1,
        "expected_start": views.MOMENT_TEXT,
        "kernels": [
            {
                "rank": 0,
                "agent_id": "agent-1",
                "node_id": "node-1",
                "resource_spec": [{"slot": "cpu", "devices": [{"device_id": "cpu-0", "amount": "1"}]}],
            }
        ],
        "displaces": [{"session_id": "ses_1", "owner": "bob", "cause": "priority", "has_run": 1.5}],
        "waits": None,
        "failure": None,
        "order_estimate": None,
    }


async def test_a_request_that_cannot_be_submitted_cannot_be_previewed(server: ApiServer) -> None:
    shown = (await server.data(PREVIEW, input={**SMALL, "cluster_size": 9}))["preview_session"]
    assert (shown["__typename"], shown["requested"], shown["limit"]) == ("ImpossibleRequest", "9", "2")
