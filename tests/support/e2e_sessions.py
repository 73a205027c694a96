"""Helpers of end-to-end tests: submit, wait, read an allocation map."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

from aliquot.cli.acceptance.run import CREATE
from aliquot.client import Client

T = TypeVar("T")

WAIT_S_MAX: Final = 60.0
POLL_S: Final = 0.02

SESSION: Final = """
query ($id: ID!) {
  session(id: $id) {
    id state exit_code signal attempt holds_devices waits { reason message }
    failure { code message }
    kernels { id rank agent_id state exit_code signal }
  }
}
"""

MAP: Final = "query ($agent_id: String!) { agent(agent_id: $agent_id) { gpu_alloc_map } }"


async def submit(client: Client, shell: str, slots: Mapping[str, str], **more: Any) -> str:
    """Submit a session and return its id."""
    wanted = [{"slot": slot, "amount": amount} for slot, amount in slots.items()]
    answer = await client.change(CREATE, {"input": {"command": {"shell": shell}, "slots": wanted, **more}})
    return str(answer["session"]["id"])


async def session(client: Client, session_id: str) -> dict[str, Any]:
    """A session as the server shows it."""
    return dict((await client.execute(SESSION, {"id": session_id}))["session"])


async def until_state(client: Client, session_id: str, *states: str) -> dict[str, Any]:
    """Wait until a session is in one of the states."""

    async def look() -> dict[str, Any] | None:
        found = await session(client, session_id)
        return found if found["state"] in states else None

    return await until(look)


async def output_of(client: Client, session_id: str) -> str:
    """The complete output of a session's first rank."""
    async with asyncio.timeout(WAIT_S_MAX):
        return "".join([chunk.text async for chunk in client.logs(session_id)])


async def alloc_map(client: Client, agent_id: str) -> dict[str, str]:
    """An agent's allocation map."""
    return dict(json.loads((await client.execute(MAP, {"agent_id": agent_id}))["agent"]["gpu_alloc_map"]))


async def until_map(client: Client, agent_id: str, expected: Mapping[str, str]) -> None:
    """Wait until an agent's map is as expected; a failure shows the last one."""
    seen: dict[str, str] = {}

    async def look() -> bool:
        seen.clear()
        seen.update(await alloc_map(client, agent_id))
        return seen == expected

    try:
        await until(look)
    except TimeoutError:
        raise AssertionError(f"the map stayed {seen}, not {dict(expected)}") from None


async def until(look: Callable[[], Awaitable[T | None]]) -> T:
    """Poll until the answer is truthy.

    Raises:
        TimeoutError: it never was.
    """
    async with asyncio.timeout(WAIT_S_MAX):
        while True:
            if found := await look():
                return found
            await asyncio.sleep(POLL_S)
