"""Uploads of working directories by viewers, other users and hostile clients."""

import msgspec
import pytest

from aliquot_schema.cluster.workspaces import FILES_MAX, Workspace, WorkspaceFile
from api_server import ApiServer
from session_sockets import user_with_key
from workspace_parts import named, sized, tree

pytestmark = pytest.mark.anyio

UPLOAD, BLOCKS = "/workspaces", "/workspaces/blocks"


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


async def test_viewers_and_invalid_keys_cannot_upload_workspaces(server: ApiServer) -> None:
    _, key = await user_with_key(server, "vera", "viewer")
    for path, body in ((UPLOAD, tree(a="x").encoded()), (BLOCKS, sized(b"x"))):
        assert (await server.http.post(path, content=body, headers=bearer(key))).status_code == 403
        assert (await server.http.post(path, content=body, headers=bearer("no-key"))).status_code == 401
    assert (await server.http.get("/sessions/ses_1/workspace", headers=bearer("no-key"))).status_code == 401


async def test_a_hash_reveals_nothing_about_other_users(server: ApiServer) -> None:
    await server.http.post(UPLOAD, content=tree(a="secret").encoded())
    assert (await server.http.post(BLOCKS, content=sized(b"secret"))).status_code == 204
    assert (await server.http.post(UPLOAD, content=tree(a="secret").encoded())).json()["missing"] == []
    _, key = await user_with_key(server, "eve", "user")
    answer = await server.http.post(UPLOAD, content=tree(a="secret").encoded(), headers=bearer(key))
    assert answer.json()["missing"] == [named(b"secret")]


@pytest.mark.parametrize(
    "file",
    [
        {"path": "../../etc/cron.d/x", "size": 1, "blocks": ["ab" * 32]},
        {"path": "/etc/passwd", "size": 1, "blocks": ["ab" * 32]},
        {"path": "a", "size": 1, "blocks": ["../../../token"]},
        {"path": "a", "link": "/etc/shadow"},
        {"path": "a", "link": "../x"},
        {"path": "a", "size": 2**70},
        {"path": "a", "size": -1},
        {"path": 5},
    ],
)
async def test_workspace_paths_outside_the_tree_are_refused(server: ApiServer, file: dict[str, object]) -> None:
    answer = await server.http.post(UPLOAD, content=msgspec.json.encode({"files": [file]}))
    assert answer.status_code == 422, answer.text


async def test_oversized_workspace_uploads_are_refused(server: ApiServer) -> None:
    many = Workspace(files=tuple(WorkspaceFile(path=f"{number:06}") for number in range(FILES_MAX + 1)))
    assert (await server.http.post(UPLOAD, content=many.encoded())).status_code == 422
    assert (await server.http.post(UPLOAD, content=b"[" * 100_000)).status_code == 422
    assert (await server.http.post(UPLOAD, content=b" " * (9 * 2**20))).status_code == 422
    assert (await server.http.post(UPLOAD, content=tree(a="x" * 1001).encoded())).status_code == 422
    await server.http.post(UPLOAD, content=tree().encoded())
    for body in (sized(b"x" * 1600), b"\xff" * 9, sized(b"ab")[:-1], sized(b""), b"1"):
        assert (await server.http.post(BLOCKS, content=body)).status_code == 422


async def test_the_workspace_of_an_unknown_session_is_not_found(server: ApiServer) -> None:
    missing = await server.http.get("/sessions/ses_none/workspace")
    assert missing.status_code == 404
