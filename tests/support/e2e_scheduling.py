"""Helpers of end-to-end scheduling tests: jobs with scripted behaviour, and operators' actions."""

import shutil
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, Final

from aliquot.cli.acceptance.cluster_view import until_joined
from aliquot.cli.acceptance.processes import OwnServer
from aliquot.client import Client
from e2e_operator import CHANGE_SESSION, QUEUE_UPDATES, SESSION, SESSIONS_IN_STATES
from e2e_sessions import submit, until

ACCELERATORS: Final = Path(__file__).parents[1] / "data" / "accelerators"


class SchedulingHarness:
    """Helpers for one test at a server. Jobs signal by files that they run, and exit with the code in a file."""

    def __init__(self, server: OwnServer, client: Client) -> None:
        self.server = server
        self.client = client
        self._marks = server.folder / "marks"
        self._marks.mkdir(exist_ok=True)
        self._marks.chmod(0o777)  # jobs may run as another account

    def mark(self, name: str) -> Path:
        """A file that jobs and tests can write."""
        return self._marks / name

    def wait_for_end_command(self, name: str) -> str:
        """Shell code: wait until `end(name)`, exit with its code."""
        flag = self.mark(name)
        return f"while [ ! -e {flag} ]; do sleep 0.05; done; exit $(cat {flag})"

    def end(self, name: str, *, code: int = 0) -> None:
        """End the jobs that wait for `name`."""
        ready = self.mark(f"{name}.part")
        ready.write_text(str(code))
        ready.rename(self.mark(name))

    async def submit(self, name: str, *, devices: str = "1", shell: str | None = None, **more: Any) -> str:
        """Submit a session that runs until `end(name)`, or runs `shell`."""
        return await submit(
            self.client, shell or self.wait_for_end_command(name), {"cuda.device": devices}, name=name, **more
        )

    async def submit_running(self, name: str, **more: Any) -> str:
        """Submit a session, and wait until it runs."""
        session_id = await self.submit(name, **more)
        await self.wait_for_state(session_id, "running")
        return session_id

    async def view(self, session_id: str) -> dict[str, Any]:
        """A session as the server shows it."""
        return dict((await self.client.execute(SESSION, {"id": session_id}))["session"])

    async def wait_for_state(self, session_id: str, *states: str) -> dict[str, Any]:
        """Wait until a session is in one of the states."""
        return await self.wait_for_session(session_id, lambda seen: seen["state"] in states)

    async def wait_for_reason(self, session_id: str, reason: str) -> dict[str, Any]:
        """Wait until a session waits for this reason."""
        return await self.wait_for_session(
            session_id, lambda seen: bool(seen["waits"]) and seen["waits"]["reason"] == reason
        )

    async def wait_for_session(self, session_id: str, is_so: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait until a session is as wanted; a failure shows its last view."""
        seen: dict[str, Any] = {}

        async def look() -> dict[str, Any] | None:
            seen.clear()
            seen.update(await self.view(session_id))
            return seen if is_so(seen) else None

        try:
            return dict(await until(look))
        except TimeoutError:
            raise AssertionError(f"it stayed {seen}") from None

    async def wait_for_mark(self, name: str) -> str:
        """Wait until a job has written to a file; return the text."""

        async def look() -> str | None:
            path = self.mark(name)
            return path.read_text().strip() or None if path.exists() else None

        return await until(look)

    async def change(self, what: str, session_id: str, *, version: int | None = None) -> dict[str, Any]:
        """Cancel, hold, release or retry a session."""
        given = {"id": session_id, "expected_version": version}
        return await self.client.change(CHANGE_SESSION[what], {"input": given})

    async def updates_until(self, *, after: int, wanted: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
        """Session updates since an event, up to the first wanted one."""
        found: list[dict[str, Any]] = []
        async with aclosing(self.client.subscribe(QUEUE_UPDATES, {"after": after})) as updates:
            async for data in updates:
                found.append(data["queue_updates"])
                if wanted(found[-1]):
                    return found
        raise AssertionError(f"it never came; the last was {found[-1:]}")

    async def updates_of(self, session_id: str, *, last: str) -> list[dict[str, Any]]:
        """The updates of one session, from its first to this kind."""
        updates = await self.updates_until(
            after=0, wanted=lambda one: one["session"]["id"] == session_id and one["kind"] == last
        )
        return [one for one in updates if one["session"]["id"] == session_id]

    async def reset(self) -> None:
        """Cancel all sessions, wait until no device is held, and reset settings."""
        while found := await self._live():
            for session_id in found:
                await self.client.execute(CHANGE_SESSION["cancel"], {"input": {"id": session_id}})
        await until(self._is_idle)
        for mark in self._marks.iterdir():
            shutil.rmtree(mark) if mark.is_dir() else mark.unlink()

    async def _live(self) -> Sequence[str]:
        live = ["queued", "held", "scheduled", "allocating", "running", "preempting"]
        page = (await self.client.execute(SESSIONS_IN_STATES, {"states": live}))["sessions"]
        return [edge["node"]["id"] for edge in page["edges"]]

    async def _is_idle(self) -> bool:
        edges = (await self.client.execute("{ agents { edges { node { kernels { id } } } } }"))["agents"]["edges"]
        return not any(edge["node"]["kernels"] for edge in edges)


def agents_of(seen: Mapping[str, Any]) -> list[str]:
    """Agents of a session's kernels, by the name of the agent's accelerator file."""
    return [str(kernel["agent_id"]).rpartition("-")[2] for kernel in seen["kernels"]]


@asynccontextmanager
async def scheduling_harness(
    *files: str, environment: Mapping[str, str] | None = None
) -> AsyncIterator[SchedulingHarness]:
    """A server with an agent for each of these accelerator files, all joined."""
    options = [text for file in files for text in ("--accelerators", str(ACCELERATORS / file))]
    async with OwnServer(*options, environment=environment) as server, server.client() as client:
        await until_joined(client, agents=len(files))
        yield SchedulingHarness(server, client)
