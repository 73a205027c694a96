"""Sessions running at a server over fakes, users with keys, and the socket of terminals."""

import json
from typing import Any

from msgspec.structs import replace
from websockets.asyncio.client import ClientConnection, connect

from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot_schema.ids import ProjectId, UserId
from aliquot_schema.quotas import Quota, QuotaScope, quota_id
from aliquot_schema.states import KernelState, SessionState
from api_server import BEARER, ApiServer
from core_records import kernel, session

PATH = "/sessions/ses_1/stream"
PROJECT = "vision"
"""Of the sessions."""
TERMINAL: dict[str, Any] = {"terminal": {"name": "one"}}
CREATE_USER = "mutation ($input: CreateUserInput!) { create_user(input: $input) { __typename } }"
CREATE_KEY = """
mutation ($input: CreateApiKeyInput!) {
  create_api_key(input: $input) { ... on CreateApiKeySuccess { secret api_key { id } } }
}
"""
UPDATE_USER = "mutation ($input: UpdateUserInput!) { update_user(input: $input) { __typename } }"
REVOKE = "mutation ($id: ID!) { revoke_api_key(id: $id) { __typename } }"


async def running_session(server: ApiServer, owner: str = "ada", *, shares_access: bool = False) -> None:
    """A running session."""
    made = session(SessionState.RUNNING, owner=UserId(owner))
    made = replace(made, project=ProjectId(PROJECT), spec=replace(made.spec, shares_access=shares_access))
    project = Quota(id=quota_id(QuotaScope.PROJECT, PROJECT), scope=QuotaScope.PROJECT, name=PROJECT)

    def change(draft: UnitOfWork) -> None:
        draft.put(project, "changed")
        draft.put(made, "started")
        draft.put(replace(kernel(KernelState.RUNNING), started_us=1), "started")

    await server.admin.journal.transact(change, actor="test")


async def user_with_key(server: ApiServer, name: str, role: str, **more: Any) -> tuple[str, str]:
    """A user with a key: its id and the key."""
    await server.data(CREATE_USER, input={"name": name, "role": role, **more})
    wanted = {"user": name, "name": "laptop", "scope": "admin"}
    made = (await server.data(CREATE_KEY, input=wanted))["create_api_key"]
    return made["api_key"]["id"], made["secret"]


def stream_socket(
    server: ApiServer, path: str = PATH, headers: dict[str, str] | None = None, **options: Any
) -> connect:
    url = f"ws://127.0.0.1:{server.port}{path}"
    return connect(url, additional_headers=BEARER if headers is None else headers, compression=None, **options)


async def open_session_stream(socket: ClientConnection, asked: dict[str, Any]) -> dict[str, Any]:
    await socket.send(json.dumps(asked))
    answer: dict[str, Any] = json.loads(await socket.recv())
    return answer
