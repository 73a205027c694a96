"""Sessions whose image is pulled from a registry, through a real server, an agent and Podman of an ordinary account."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_harness import marked_processes
from aliquot.client import Client
from aliquot_schema.ids import SessionId, kernel_id
from e2e_sessions import output_of, submit, until, until_state
from long_tests import LONG
from own_containers import Containers, containers, end_job, served
from own_registry import LAYER_BYTES, PASSED_BYTES, PASSWORD, Registry, StallingProxy, registry
from own_terminal import piped

pytestmark = [pytest.mark.anyio, LONG]
CANCEL = "mutation ($id: ID!) { cancel_session(input: { id: $id }) { __typename } }"
PULL = """
query ($id: ID!) {
  session(id: $id) { state pull { agent_id rank began_at ended_at bytes_done bytes_total layers_done layers size } }
  session_steps(id: $id, first: 50) { edges { node { kind state pull { ended_at size } } } }
}
"""


@pytest.fixture(scope="module")
def podman() -> Iterator[Containers]:
    with containers(as_root=False) as found:
        yield found


async def looked_at(client: Client, id: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The session with its pull, and its steps, oldest first."""
    found = await client.execute(PULL, {"id": id})
    return found["session"], [edge["node"] for edge in reversed(found["session_steps"]["edges"])]


async def until_pulling(client: Client, id: str) -> dict[str, Any]:
    """Wait until part of the image is fetched; the session."""

    async def look() -> dict[str, Any] | None:
        found, _ = await looked_at(client, id)
        return found if found["pull"] is not None and found["pull"]["bytes_done"] else None

    return await until(look)


def after_launch(steps: list[dict[str, Any]]) -> list[str]:
    kinds = [step["kind"].removeprefix("session.") for step in steps]
    return kinds[kinds.index("allocating") + 1 :]


async def test_a_pull_shows_in_the_timeline_and_goes_on_while_the_server_is_down(
    podman: Containers, images: Registry, gate: StallingProxy
) -> None:
    async with served(podman) as (server, client):
        name = images.name("large:1", port=gate.port)
        id = await submit(client, "echo job; while ! test -e go; do sleep 0.05; done", {"cpu": "1"}, image=name)
        found = await until_pulling(client, id)
        assert found["state"] == "allocating"
        assert 0 < found["pull"]["bytes_done"] <= PASSED_BYTES < LAYER_BYTES < found["pull"]["bytes_total"]
        place = {"ALIQUOT_SERVER": server.url, "ALIQUOT_TOKEN_FILE": str(server.data_folder / "token")}
        code, printed, errors = await piped("session", "show", id, given=b"", environment=place)
        assert code == 0, errors
        assert f"allocating: pulling {name} on {found['pull']['agent_id']}, " in printed.decode()
        await server.kill()
        await server.start()
        async with server.client() as again:
            assert (await looked_at(again, id))[0]["state"] == "allocating"
            gate.resume()
            await until_state(again, id, "running")
            end_job(server.data_folder, id)
            ended = await until_state(again, id, "completed", "failed")
            assert (ended["state"], ended["attempt"]) == ("completed", 1), ended
            assert await output_of(again, id) == "job\n"
            found, steps = await looked_at(again, id)
            assert after_launch(steps) == ["pulling", "pulled", "running", "completed"]
            assert [step["pull"] for step in steps if step["kind"] == "session.pulling"] == [
                {"ended_at": None, "size": None}
            ]
            assert found["pull"]["ended_at"] > found["pull"]["began_at"]
            assert found["pull"]["size"] > LAYER_BYTES
            code, printed, errors = await piped("session", "show", id, given=b"", environment=place)
            assert code == 0, errors
            assert " MiB on the node" in printed.decode()
            second = await submit(again, "echo job", {"cpu": "1"}, image=name)
            await until_state(again, second, "completed")
            found, steps = await looked_at(again, second)
            assert (found["pull"], after_launch(steps)) == (None, ["running", "completed"])


async def test_a_cancel_ends_a_pull(podman: Containers, images: Registry, gate: StallingProxy) -> None:
    async with served(podman) as (_, client):
        id = await submit(client, "echo never", {"cpu": "1"}, image=images.name("large:1", port=gate.port))
        await until_pulling(client, id)
        assert pids(id)
        await client.change(CANCEL, {"id": id})

        async def is_over() -> bool:
            return (await until_state(client, id, "canceled"))["holds_devices"] is False

        await until(is_over)
        assert pids(id) == []
        assert podman.names() == []


def pids(id: str) -> list[int]:
    return marked_processes(kernel_id(SessionId(id), attempt=1, rank=0))


async def test_an_agent_reports_an_image_that_it_has_pulled(podman: Containers, images: Registry) -> None:
    async with served(podman) as (server, client):
        name = images.name("large:1")
        id = await submit(client, "echo job", {"cpu": "1"}, image=name)
        await until_state(client, id, "completed")

        async def is_told() -> bool:
            found = await client.execute("{ agents { edges { node { capabilities { images } } } } }")
            return name in found["agents"]["edges"][0]["node"]["capabilities"]["images"]

        await until(is_told)
        place = {"ALIQUOT_SERVER": server.url, "ALIQUOT_TOKEN_FILE": str(server.data_folder / "token")}
        code, printed, errors = await piped("agents", "list", "--json", given=b"", environment=place)
        assert code == 0, errors
        assert name in json.loads(printed)[0]["capabilities"]["images"]


async def test_a_secret_gives_access_to_a_private_registry_and_is_in_no_server_file(podman: Containers) -> None:
    with registry(has_users=True) as private:
        name = private.push(podman, "tiny:1")
        async with served(podman) as (server, _):
            place = {"ALIQUOT_SERVER": server.url, "ALIQUOT_TOKEN_FILE": str(server.data_folder / "token")}
            given = private.credentials().encode()
            code, _, errors = await piped("secret", "set", "lab", given=given, environment=place)
            assert code == 0, errors
            words = ("session", "create", "-r", "cpu=1", "--image", name, "--follow")
            code, printed, errors = await piped(*words, "--", "echo", "job", given=b"", environment=place)
            assert code != 0
            assert f"does not give out the image {name}" in errors.decode()
            words = (*words, "--secret-file", "lab=registry.json")
            code, printed, errors = await piped(*words, "--", "echo", "job", given=b"", environment=place)
            assert (code, printed.decode().splitlines()[-1:]) == (0, ["job"]), errors
            assert PASSWORD not in printed.decode() + errors.decode()
            assert files_with(server.data_folder, PASSWORD.encode()) == []


def files_with(folder: Path, text: bytes) -> list[Path]:
    found = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    assert found
    return [path for path in found if text in path.read_bytes()]
