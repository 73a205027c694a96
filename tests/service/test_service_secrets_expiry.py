"""Secrets of users without access: kept for a while, then deleted, with an event in the log."""

import pytest
from msgspec.structs import replace

from aliquot.service.accounts.secrets import KEPT_US, SecretCleanup, Secrets
from aliquot.service.ports import StoreUnavailable
from aliquot.service.retention import ClockJumps
from aliquot_schema.identity.accounts import Role, User
from aliquot_schema.ids import UserId
from aliquot_schema.requests import Caller
from service_bench import agent
from service_memory_secrets import MemorySecrets
from service_stage import Stage, stage

pytestmark = pytest.mark.anyio

DAY_S = 86_400


async def put_user(on: Stage, user: User, *, disabled: bool) -> None:
    changed = replace(user, disabled=disabled, changed_us=on.clock.now_us())
    await on.journal.transact(lambda draft: draft.put(changed, "changed"), actor="root")


async def test_secrets_are_deleted_after_their_owner_was_disabled_for_a_month() -> None:
    async with stage([agent("a", devices=1)]) as on:
        bare = Secrets(clock=on.clock, journal=on.journal)
        jumps = ClockJumps(on.clock)
        assert await SecretCleanup(bare, state=on.state, clock=on.clock, jumps=jumps).run_once() == 0, "it keeps none"
        drawer = MemorySecrets()
        vault = Secrets(clock=on.clock, journal=on.journal, store=drawer)
        clearing = SecretCleanup(vault, state=on.state, clock=on.clock, jumps=jumps)
        users = [User(id=UserId(name), role=Role.USER, created_us=1) for name in ("ann", "bob", "cat")]
        for user in users:
            await put_user(on, user, disabled=False)
            for name in ("one", "two"):
                await vault.set_secret(Caller(user=user.id, request_id="r", role=Role.USER), name, "x")
        on.clock.advance(100 * DAY_S)
        assert await clearing.run_once() == 0
        for user in users[:2]:
            await put_user(on, user, disabled=True)
        on.clock.advance(KEPT_US / 1e6 - 60)
        assert await clearing.run_once() == 0
        await put_user(on, users[1], disabled=False)
        on.clock.advance(120)
        drawer.can_delete = False
        with pytest.raises(StoreUnavailable):
            await clearing.run_once()
        drawer.can_delete = True
        assert await clearing.run_once() == 2
        assert await clearing.run_once() == 0
        assert sorted({owner for owner, _ in drawer.stored}) == ["bob", "cat"]
        assert on.state.secret_names[UserId("ann")].set_us == {}
        told = [event for event in await on.events() if event.kind == "secrets.deleted"]
        assert {(event.entity_id, event.actor) for event in told} == {("ann", "system:secrets")}
