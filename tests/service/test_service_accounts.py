"""Users, API keys, rate limits, permissions, and which fields of a session each role sees."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import fields, replace

from aliquot.service.access import JobAccounts, Trust
from aliquot.service.accounts.rate_limit import Rate, SubmissionRateLimit, TokenBuckets
from aliquot.service.alerts.api import AlertCommands
from aliquot.service.state.identities import Identities
from aliquot_schema.errors import Forbidden, InvalidRequest, RateLimited, StateConflict
from aliquot_schema.identity.access import KERNEL_FIELDS, SESSION_FIELDS
from aliquot_schema.identity.accounts import KeyScope, Role, User
from aliquot_schema.ids import AgentId, KeyId, ProjectId, UserId
from aliquot_schema.requests import Caller, NewSession, PageRequest, SessionFilter
from aliquot_schema.views.accounts import NewApiKey, NewUser, UserChanges
from aliquot_schema.views.alerts import NoticePreferencesChanges
from aliquot_schema.views.sessions import KernelView, SessionView
from api_service import accounts_of
from service_bench import agent
from service_reaping import reaper_of
from service_stage import Stage, stage

pytestmark = pytest.mark.anyio

ADMIN = Caller(user=UserId("root"), request_id="req_test", role=Role.ADMIN)
ANN = Caller(user=UserId("ann"), request_id="req_test", role=Role.USER, key_id=KeyId("key_ann"))
BOB = Caller(user=UserId("bob"), request_id="req_test", role=Role.USER, key_id=KeyId("key_bob"))
MATE = replace(BOB, user=UserId("mia"), projects=(ProjectId("vision"),))
OLGA = replace(BOB, user=UserId("olga"), role=Role.OPERATOR)
VIEWER = replace(BOB, user=UserId("vic"), role=Role.VIEWER)
PAGE = PageRequest(first=10)


@pytest.fixture
async def scene() -> AsyncIterator[Stage]:
    async with stage([agent("a", devices=4)]) as found:
        yield found


async def submit(scene: Stage, caller: Caller, **more: Any) -> str:
    request = {
        "argv": ("train", "--secret"),
        "shell": None,
        "slots": [("cuda.device", "1")],
        "environment": [("TOKEN", "hush")],
        "tags": [("paper", "unpublished")],
        "run_id": "run-7",
        "working_directory": "/home/ann",
    }
    made = await scene.sessions.create_session(caller, NewSession(**(request | more)))
    return made.session.id


async def test_a_server_that_cannot_switch_unix_accounts_accepts_only_viewers(scene: Stage) -> None:
    accounts = accounts_of(scene, trust=Trust.ALONE)
    with pytest.raises(StateConflict, match="single-trust-domain"):
        await accounts.create_user(ADMIN, NewUser(name="bob", role=Role.USER))
    await accounts.create_user(ADMIN, NewUser(name="vic", role=Role.VIEWER))
    with pytest.raises(StateConflict):
        await accounts.update_user(ADMIN, "vic", UserChanges(role=Role.USER), None)


async def test_two_users_do_not_share_a_unix_account_unless_all_are_trusted(scene: Stage) -> None:
    accounts = accounts_of(scene, trust=Trust.SEPARATE)
    await accounts.create_user(ADMIN, NewUser(name="ann", role=Role.USER, unix_name="ann"))
    with pytest.raises(InvalidRequest, match="run as nobody"):
        await accounts.create_user(ADMIN, NewUser(name="bob", role=Role.USER, unix_name="nobody"))
    with pytest.raises(InvalidRequest, match="is used by ann"):
        await accounts.create_user(ADMIN, NewUser(name="bob", role=Role.USER, unix_name="ann"))
    await accounts_of(scene, trust=Trust.SHARED).create_user(
        ADMIN, NewUser(name="bob", role=Role.USER, unix_name="ann")
    )


async def test_account_changes_are_events_without_the_secret_or_its_digest(scene: Stage) -> None:
    accounts = accounts_of(scene, trust=Trust.SHARED)
    before = scene.state.revision
    await accounts.create_user(ADMIN, NewUser(name="bob", role=Role.USER))
    made = await accounts.create_api_key(ADMIN, NewApiKey(user="bob", name="laptop", scope=KeyScope.SUBMIT))
    await accounts.update_user(ADMIN, "bob", UserChanges(projects=("vision",)), None)
    await accounts.revoke_api_key(ADMIN, made.api_key.id)
    await accounts.disable_user(ADMIN, "bob", None)
    events = await scene.feed._store.events_after(before, limit=100)
    assert [(event.kind, event.actor) for event in events] == [
        ("user.created", "root"),
        ("key.created", "root"),
        ("user.changed", "root"),
        ("key.revoked", "root"),
        ("user.disabled", "root"),
    ]
    secret = made.secret.partition(".")[2]
    assert not any(secret in repr(event) for event in events)
    assert not any(getattr(event.record, "digest", "-") in repr(event) for event in events)


async def test_a_read_only_or_expiring_key_cannot_renew_the_calendar_feed(scene: Stage) -> None:
    accounts = accounts_of(scene, trust=Trust.SHARED)
    await accounts.create_user(ADMIN, NewUser(name="bob", role=Role.USER))

    async def renewed(**more: Any) -> str:
        made = await accounts.create_api_key(ADMIN, NewApiKey(user="bob", name="x", **more))
        bob = Caller(user=UserId("bob"), request_id="r", role=Role.USER, key_id=KeyId(made.api_key.id))
        return (await accounts.renew_calendar_feed(bob)).mine

    for limits in ({"scope": KeyScope.READ}, {"scope": KeyScope.SUBMIT, "expires_in": 60.0}):
        with pytest.raises(Forbidden, match="use a key of a wider scope without an expiry, or the dashboard's sign-in"):
            await renewed(**limits)
    assert "user=bob" in await renewed(scope=KeyScope.SUBMIT)


async def test_a_read_only_key_can_change_neither_notice_preferences_nor_other_keys(scene: Stage) -> None:
    accounts = accounts_of(scene, trust=Trust.SHARED)
    notices = AlertCommands(state=scene.state, journal=scene.journal, clock=scene.clock)
    await accounts.create_user(ADMIN, NewUser(name="bob", role=Role.VIEWER))
    scopes = KeyScope.READ, KeyScope.SUBMIT
    reads, other = [
        KeyId((await accounts.create_api_key(ADMIN, NewApiKey(user="bob", name="x", scope=scope))).api_key.id)
        for scope in scopes
    ]
    bob = Caller(user=UserId("bob"), request_id="r", role=Role.VIEWER, key_id=reads)
    wanted = NoticePreferencesChanges(email="bob@example.org")
    with pytest.raises(Forbidden, match="cannot change who gets notices, and about what; use a key of a wider scope"):
        await notices.set_notice_preferences(bob, wanted)
    with pytest.raises(Forbidden, match="cannot change other keys"):
        await accounts.revoke_api_key(bob, other)
    assert (await accounts.revoke_api_key(bob, reads)).api_key.revoked_at is not None
    changed = await notices.set_notice_preferences(replace(bob, key_id=other), wanted)
    assert changed.preferences.email == "bob@example.org"


async def test_users_without_an_own_unix_account_may_not_submit(scene: Stage) -> None:
    people = Identities()
    accounts = accounts_of(scene, trust=Trust.SEPARATE)
    await accounts.create_user(ADMIN, NewUser(name="ann", role=Role.USER, unix_name="ann"))
    await accounts.create_user(ADMIN, NewUser(name="bob", role=Role.USER))
    people = scene.state.people

    def gate(trust: Trust) -> SubmissionRateLimit:
        return SubmissionRateLimit(people, trust=trust, rate=None, monotonic=lambda: 0.0)

    scene.limit(gate(Trust.SEPARATE))
    await submit(scene, ANN)
    with pytest.raises(Forbidden, match="aliquot user set bob --unix NAME"):
        await submit(scene, BOB)
    await submit(scene, ADMIN)  # by the server's own token
    scene.limit(gate(Trust.ALONE))
    with pytest.raises(Forbidden):
        await submit(scene, ANN)
    scene.limit(gate(Trust.SHARED))
    await submit(scene, BOB)


async def test_an_order_names_the_unix_account_of_the_owner(scene: Stage) -> None:
    accounts = accounts_of(scene, trust=Trust.SEPARATE)
    await accounts.create_user(ADMIN, NewUser(name="ann", role=Role.USER, unix_name="anna"))
    theirs, plain = await submit(scene, ANN), await submit(scene, ADMIN)
    await scene.advance()
    orders = [order for agent in scene.executor.agents.values() for order in agent.orders.values()]
    users = {order.kernel_id.split(".")[0]: order.user for order in orders}
    assert users == {theirs: "anna", plain: None}


async def test_start_orders_name_no_unix_account_in_a_single_trust_domain(scene: Stage) -> None:
    accounts = accounts_of(scene, trust=Trust.SHARED)
    await accounts.create_user(ADMIN, NewUser(name="ann", role=Role.USER, unix_name="anna"))
    scene.state.people.share_account()
    await submit(scene, ANN)
    await scene.advance()
    assert [order.user for agent in scene.executor.agents.values() for order in agent.orders.values()] == [None]


@pytest.mark.parametrize(
    ("trust", "unix", "default", "jobs_run_as", "warning"),
    [
        (
            Trust.SEPARATE,
            "anna",
            "nobody",
            "jobs of ann run as the Unix account anna",
            "host h has no account anna, so jobs of ann fail there; create it (useradd anna), also on gpu02",
        ),
        (
            Trust.SEPARATE,
            "here",
            "nobody",
            "jobs of ann run as the Unix account here",
            "the account here has to exist on gpu02 too; jobs fail where it does not",
        ),
        (
            Trust.SEPARATE,
            "anna",
            None,
            "jobs of ann run as the Unix account anna",
            "the account anna has to exist on gpu02 too; jobs fail where it does not",
        ),
        (
            Trust.SEPARATE,
            None,
            "nobody",
            "ann has no Unix account and cannot submit; give one with --unix NAME",
            None,
        ),
        (
            Trust.SEPARATE,
            "on-gpu02",
            None,
            "jobs of ann run as the Unix account on-gpu02",
            "host gpu03 has no account on-gpu02, so jobs of ann fail there; create it (useradd on-gpu02)",
        ),
        (
            Trust.SEPARATE,
            "on-gpu02",
            "nobody",
            "jobs of ann run as the Unix account on-gpu02",
            "hosts gpu03, h have no account on-gpu02, so jobs of ann fail there; create it (useradd on-gpu02)",
        ),
        (Trust.SEPARATE, "everywhere", None, "jobs of ann run as the Unix account everywhere", None),
        (Trust.SHARED, None, "nobody", "jobs of ann run as nobody (the job user)", None),
        (
            Trust.SHARED,
            "anna",
            None,
            "jobs of ann run as the agents' job user, and --unix anna is not used",
            None,
        ),
    ],
)
def test_an_admin_sees_which_unix_account_jobs_use_and_on_which_hosts_it_is_missing(
    trust: Trust, unix: str | None, default: str | None, jobs_run_as: str, warning: str | None
) -> None:
    accounts = JobAccounts(hostname="h", default=default, exists=lambda name: name == "here")
    ann = User(id=UserId("ann"), role=Role.USER, unix_name=unix)
    assert accounts.words(ann, trust=trust) == jobs_run_as
    told: dict[str | None, list[tuple[str, bool | None]]] = {
        "on-gpu02": [("gpu02", True), ("gpu03", False), ("gpu03", False)],
        "everywhere": [("gpu02", True), ("gpu03", True)],
    }
    agents = told.get(unix, [("h", None), ("h-eight_h100", False), ("gpu02", None)])
    assert accounts.warning(ann, trust=trust, agents=agents) == warning
    assert accounts.words(replace(ann, role=Role.VIEWER), trust=trust) is None


async def test_a_missing_unix_account_on_the_host_of_an_agent_gives_a_warning(scene: Stage) -> None:
    accounts = JobAccounts(hostname="server", default=None, exists=lambda _: False)
    office = accounts_of(scene, trust=Trust.SEPARATE, job_accounts=accounts, search=reaper_of(scene).accounts)
    scene.executor.agents[AgentId("a")].accounts.add("anna")
    made = await office.create_user(ADMIN, NewUser(name="ann", role=Role.USER, unix_name="anna"))
    assert made.warning is None
    made = await office.create_user(ADMIN, NewUser(name="bob", role=Role.USER, unix_name="bob"))
    assert made.warning == "host a has no account bob, so jobs of bob fail there; create it (useradd bob)"
    scene.executor.silent.add(AgentId("a"))
    changed = await office.update_user(ADMIN, "bob", UserChanges(unix_name="rob"), None)
    assert changed.warning == "the account rob has to exist on a too; jobs fail where it does not"


async def test_a_rate_limited_user_gets_the_time_to_retry(scene: Stage) -> None:
    now = 0.0
    rate = Rate(per_minute=3)
    scene.limit(SubmissionRateLimit(Identities(), trust=Trust.SHARED, rate=rate, monotonic=lambda: now))
    for _ in range(3):
        await submit(scene, ANN)
    with pytest.raises(RateLimited) as refused:
        await submit(scene, ANN)
    assert refused.value.retry_after == pytest.approx(20)
    await submit(scene, BOB)
    for _ in range(5):
        await submit(scene, OLGA)
    now = 20.0
    await submit(scene, ANN)


@given(st.lists(st.tuples(st.floats(0, 90), st.integers(1, 12)), max_size=60))
def test_a_user_never_exceeds_the_rate_plus_one_burst(steps: list[tuple[float, int]]) -> None:
    now, taken = 0.0, 0
    buckets = TokenBuckets(Rate(per_minute=10), monotonic=lambda: now)
    for passes, amount in steps:
        now += passes
        wait_s = buckets.take("ann", amount)
        if wait_s == 0:
            taken += amount
            # A cost above a full bucket is allowed once, and owed.
            assert taken <= 10 + now * 10 / 60 + max(amount - 10, 0) + 1e-6
        else:
            earlier, now = now, now + wait_s + 1e-6
            assert buckets.take("ann", amount) == 0
            taken += amount
            assert now > earlier


async def test_other_users_see_only_what_their_role_and_project_permit_of_a_session(scene: Stage) -> None:
    session_id = await submit(scene, replace(ANN, projects=(ProjectId("vision"),)), project="vision")
    await scene.advance()
    found = {}
    for caller in (ANN, ADMIN, OLGA, MATE, BOB, VIEWER):
        view = await scene.queries.session(caller, session_id)
        assert view is not None
        found[caller.user] = view
        assert (view.owner, view.state, view.slots) == ("ann", found[UserId("ann")].state, found[UserId("ann")].slots)
    for name in ("ann", "root"):
        assert found[UserId(name)].command == ("train", "--secret")
        assert found[UserId(name)].hidden == ()
    for name in ("olga", "mia"):
        assert (found[UserId(name)].command, found[UserId(name)].environment) == ((), ())
        assert found[UserId(name)].run_id == "run-7"
        assert set(found[UserId(name)].hidden) == {"command", "environment", "preflight"}
    for name in ("bob", "vic"):
        text = repr(found[UserId(name)])
        assert not any(secret in text for secret in ("--secret", "hush", "unpublished", "run-7", "/home/ann"))


async def test_all_queries_hide_the_same_fields_of_a_session(scene: Stage) -> None:
    session_id = await submit(scene, ANN)
    before = scene.state.revision - 1
    seen = [
        (await scene.queries.sessions(BOB, SessionFilter(), "newest", PAGE)).items[0],
        scene.queries.queue(BOB, PAGE).items[0].session,
        (await anext(scene.watching.queue_updates(BOB, before))).session,
    ]
    expected = await scene.queries.session(BOB, session_id)
    assert expected is not None
    expected = replace(expected, order_explanation=None)  # shown on one session only
    assert [replace(view, queue_position=None) for view in seen] == [expected] * 3
    assert expected.command == ()
    with pytest.raises(Forbidden):
        await anext(scene.watching.session_logs(BOB, session_id, rank=0, attempt=None, offset=0))
    with pytest.raises(Forbidden):
        await anext(scene.watching.session_logs(OLGA, session_id, rank=0, attempt=None, offset=0))
    held = await scene.sessions.hold_session(OLGA, session_id, None)
    assert held.session.command == ()


async def test_only_members_of_a_project_cancel_its_sessions_and_submit_to_it(scene: Stage) -> None:
    session_id = await submit(scene, replace(ANN, projects=(ProjectId("vision"),)), project="vision")
    for stranger in (BOB, VIEWER):
        with pytest.raises(Forbidden):
            await scene.sessions.cancel_session(stranger, session_id, None)
        with pytest.raises(Forbidden):
            await submit(scene, stranger, project="vision")
    await scene.sessions.cancel_session(MATE, session_id, None)


def test_hidden_fields_exist_in_the_views() -> None:
    for table, view in ((SESSION_FIELDS, SessionView), (KERNEL_FIELDS, KernelView)):
        assert {name for some in table.values() for name in some} <= {field.name for field in fields(view)}
