"""The vault on an in-memory store: owners of secrets, and what orders get of them."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from aliquot.core.validation.fields import limits_of, sandbox_of, secrets_of
from aliquot.service.accounts.secrets import Secrets
from aliquot.service.ports import StoreUnavailable
from aliquot_schema.cluster.launching import LaunchOrder
from aliquot_schema.errors import Forbidden, InvalidRequest, LimitExceeded, NotFound, Unavailable
from aliquot_schema.identity.accounts import Role
from aliquot_schema.identity.secrets import SECRETS_MAX, VALUE_BYTES_MAX, SecretGrant, SecretNames, SecretUse
from aliquot_schema.ids import KernelId, UserId
from aliquot_schema.requests import Caller, NewSession
from service_bench import agent
from service_memory_secrets import MemorySecrets
from service_stage import Stage, stage

pytestmark = pytest.mark.anyio

ANNA = Caller(user=UserId("anna"), request_id="r", role=Role.USER)
ADMIN = Caller(user=UserId("root"), request_id="r", role=Role.ADMIN)
LOOKER = Caller(user=UserId("vera"), request_id="r", role=Role.VIEWER)


@pytest.fixture
def drawer() -> MemorySecrets:
    return MemorySecrets()


@pytest.fixture
async def scene() -> AsyncIterator[Stage]:
    async with stage([agent("a", devices=1)]) as found:
        yield found


@pytest.fixture
def vault(drawer: MemorySecrets, scene: Stage) -> Secrets:
    return Secrets(clock=scene.clock, journal=scene.journal, store=drawer)


def order(*names: str) -> LaunchOrder:
    grants = tuple(SecretGrant(owner=ANNA.user, use=SecretUse(name=name, as_env=name.upper())) for name in names)
    return LaunchOrder(
        kernel_id=KernelId("ses_1.1.0"),
        epoch=1,
        argv=("true",),
        environment={},
        working_directory=None,
        spec={},
        secrets=grants,
    )


async def test_each_user_can_see_and_delete_only_their_own_secrets(vault: Secrets) -> None:
    await vault.set_secret(ANNA, "token", "hers")
    assert [secret.name for secret in await vault.secrets(ANNA)] == ["token"]
    assert await vault.secrets(ADMIN) == ()
    with pytest.raises(NotFound):
        await vault.delete_secret(ADMIN, "token")
    with pytest.raises(Forbidden):
        await vault.set_secret(LOOKER, "token", "x")
    await vault.delete_secret(ANNA, "token")
    with pytest.raises(NotFound):
        await vault.delete_secret(ANNA, "token")


async def test_the_log_records_names_of_secrets_set_and_deleted_but_no_values(vault: Secrets, scene: Stage) -> None:
    began = scene.state.revision
    await vault.set_secret(ANNA, "token", "hers")
    await vault.set_secret(ANNA, "other", "hers too")
    await vault.delete_secret(ANNA, "token")
    with pytest.raises(NotFound):
        await vault.delete_secret(ANNA, "token")
    events = await scene.store.events_after(began, limit=10)
    told = [(event.kind, event.entity_id, event.actor, event.request_id) for event in events]
    assert told == [(f"secrets.{what}", "anna", "anna", "r") for what in ("set", "set", "deleted")]
    names = [list(event.record.set_us) for event in events if isinstance(event.record, SecretNames)]
    assert names == [["token"], ["token", "other"], ["other"]]
    assert "hers" not in repr(events)


async def test_secrets_set_concurrently_are_all_recorded_in_the_log(vault: Secrets, scene: Stage) -> None:
    await asyncio.gather(*(vault.set_secret(ANNA, f"s{number}", "hers") for number in range(8)))
    assert sorted(scene.state.secret_names[ANNA.user].set_us) == [f"s{number}" for number in range(8)]


async def test_names_of_secrets_that_were_never_stored_do_not_accumulate(
    vault: Secrets, scene: Stage, drawer: MemorySecrets
) -> None:
    drawer.is_key_lost = True
    for number in range(SECRETS_MAX + 10):
        with pytest.raises(Unavailable):
            await vault.set_secret(ANNA, f"s{number}", "hers")
    assert len(scene.state.secret_names[ANNA.user].set_us) <= SECRETS_MAX + 1


async def test_start_orders_get_secret_values_that_repr_does_not_show(vault: Secrets) -> None:
    await vault.set_secret(ANNA, "token", "hers")
    plain = order()
    [same, filled] = await vault.filled([plain, order("token", "gone")])
    assert same == plain
    assert [grant.value for grant in filled.secrets] == ["hers", None]
    assert "hers" not in repr(filled)


async def test_an_unavailable_secret_store_raises_and_a_lost_key_is_reported_in_the_order(
    vault: Secrets, drawer: MemorySecrets
) -> None:
    drawer.fault = StoreUnavailable("down")
    with pytest.raises(StoreUnavailable):
        await vault.filled([order("token")])
    drawer.fault = Unavailable("no such key")
    [filled] = await vault.filled([order("token")])
    assert (filled.secrets[0].value, filled.secrets[0].why_not) == (None, "no such key")


async def test_an_unreadable_secret_does_not_block_the_other_secrets(vault: Secrets, drawer: MemorySecrets) -> None:
    for name in ("token", "spoilt"):
        await vault.set_secret(ANNA, name, "hers")
    drawer.corrupted = "spoilt"
    [filled, other] = await vault.filled([order("token", "spoilt"), order("token")])
    assert [(grant.value, grant.why_not) for grant in filled.secrets] == [("hers", None), (None, "it was changed")]
    assert [grant.value for grant in other.secrets] == ["hers"]


async def test_a_session_may_request_only_existing_secrets(vault: Secrets) -> None:
    uses = secrets_of([("token", "TOKEN", None)], variables=())
    with pytest.raises(InvalidRequest, match=r"has no secret token; store it with .* or in the dashboard"):
        await vault.check(ANNA.user, uses)
    await vault.set_secret(ANNA, "token", "hers")
    await vault.check(ANNA.user, uses)


@pytest.mark.parametrize("value", ["", "a\0b", "half \ud800"])
async def test_secret_values_that_no_environment_variable_can_hold_are_refused(vault: Secrets, value: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await vault.set_secret(ANNA, "token", value)
    assert not value or value not in refused.value.message


async def test_limits_on_the_size_name_and_number_of_secrets(vault: Secrets, drawer: MemorySecrets) -> None:
    with pytest.raises(LimitExceeded):
        await vault.set_secret(ANNA, "token", "x" * (VALUE_BYTES_MAX + 1))
    for name in ("", "1a", "a b", "../x", "a" * 65):
        with pytest.raises(InvalidRequest):
            await vault.set_secret(ANNA, name, "x")
    drawer.stored = {(ANNA.user, f"s{number}"): "x" for number in range(SECRETS_MAX)}
    with pytest.raises(LimitExceeded):
        await vault.set_secret(ANNA, "one_more", "x")
    await vault.set_secret(ANNA, "s0", "in its place")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ([("a b", "A", None)], "not a name of a secret"),
        ([("a", None, None)], "needs a variable or a file"),
        ([("a", "PATH=", None)], "not a variable name"),
        ([("a", "ALIQUOT_X", None)], "set by Aliquot"),
        ([("a", None, "../x")], "not a file name"),
        ([("a", None, ".")], "not a file name"),
        ([("a", "A", None), ("b", "A", None)], "given twice"),
        ([("a", None, "f"), ("b", None, "f")], "given twice"),
        ([("a", "SET", None)], "given twice"),
    ],
)
def test_invalid_secret_requests_of_a_session_are_refused(
    asked: list[tuple[str, str | None, str | None]], words: str
) -> None:
    with pytest.raises(InvalidRequest, match=words):
        secrets_of(asked, variables=("SET",))


def test_invalid_limits_and_sandbox_of_a_request_are_refused() -> None:
    plain = NewSession(argv=("true",), shell=None, slots=(("cpu", "1"),))
    assert sandbox_of(plain) is None
    with pytest.raises(InvalidRequest, match="use one of standard"):
        sandbox_of(NewSession(argv=("true",), shell=None, slots=(), sandbox="loose"))
    for fields in ({"processes": 1}, {"open_files": 3}, {"processes": 10**9}):
        with pytest.raises(InvalidRequest, match="limits"):
            limits_of(NewSession(argv=("true",), shell=None, slots=(), **fields))
