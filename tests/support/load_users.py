"""Fifty users with keys, in teams of five: they submit, cancel, and change the priority of their sessions."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import cycle, islice
from random import Random
from typing import Final

from aliquot.cli.acceptance.processes import OwnServer
from aliquot.client import Client, Refused
from aliquot.client.generated.accounts import CreateApiKeyInput, CreateUserInput
from aliquot.client.generated.inputs import CancelSessionInput, UpdateSessionPriorityInput
from aliquot.client.generated.policy_inputs import UpdatePolicyInput
from e2e_sessions import submit

USERS_COUNT: Final = 50
TEAMS: Final = 10
AT_A_TIME: Final = 8
PRIORITIES: Final = ("low", "normal", "high", "critical")
ACTS: Final = ("cancel", "urge", "urge", "urge", "intrude")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadUser:
    """A user."""

    name: str
    team: str
    """The project, whose members may change each other's sessions."""
    client: Client
    """Uses this user's own key."""


@asynccontextmanager
async def load_users(server: OwnServer, admin: Client) -> AsyncIterator[Mapping[str, LoadUser]]:
    """All users by name, made through the API; any of them may ask for any priority."""
    await admin.update_policy(UpdatePolicyInput(user_priority_max=PRIORITIES[-1]))
    people: dict[str, LoadUser] = {}
    async with AsyncExitStack() as stack:
        for number in range(USERS_COUNT):
            name, team = f"person-{number}", f"team-{number % TEAMS}"
            await admin.create_user(CreateUserInput(name=name, projects=[team]))
            made = await admin.create_api_key(CreateApiKeyInput(user=name, name="load"))
            client = await stack.enter_async_context(Client(server.url, made.secret))
            people[name] = LoadUser(name=name, team=team, client=client)
        yield people


async def submit_all(
    people: Mapping[str, LoadUser], shell: str, *, count: int, owners: dict[str, str], slots: Mapping[str, str]
) -> None:
    """Submit sessions for all users in turn; each owner is recorded as soon as the id is known."""
    left = islice(cycle(people.values()), count)

    async def work() -> None:
        for person in left:
            id = await submit(person.client, shell, slots, project=person.team, priority="normal")
            owners[id] = person.name

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_A_TIME):
            group.create_task(work())


async def change_sessions_forever(
    people: Mapping[str, LoadUser], owners: Mapping[str, str], counts: Counter[str]
) -> None:
    """Without end: cancel or reprioritise own and team sessions, unless ended; try to cancel those of others.

    Raises:
        AssertionError: that worked, or a member could not change what belongs to the team.
    """
    random = Random(1)
    while True:
        if owners:
            id = random.choice(list(owners))
            act, team = random.choice(ACTS), people[owners[id]].team
            actor = random.choice([one for one in people.values() if (one.team == team) is (act != "intrude")])
            outcome = await _outcome(actor.client, act, id, priority=random.choice(PRIORITIES))
            told = f"{actor.name} of {actor.team}, {act} {id} of {owners[id]}: {outcome}"
            assert (outcome == "forbidden") is (act == "intrude"), told
            counts[outcome] += 1
        await asyncio.sleep(0.02)


async def _outcome(client: Client, act: str, id: str, *, priority: str) -> str:
    """The act on success, or the error code."""
    try:
        if act == "urge":
            await client.update_session_priority(UpdateSessionPriorityInput(id=id, priority=priority))
        else:
            await client.cancel_session(CancelSessionInput(id=id))
    except Refused as error:
        return error.code
    return act
