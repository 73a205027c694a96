"""Submission: batches with references, immediate refusals, and permissions."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from aliquot.service.queries.pools_and_projects import project_views
from aliquot.service.quotas import Quotas
from aliquot_schema.errors import (
    AliquotError,
    Forbidden,
    IdempotencyMismatch,
    InvalidRequest,
    NotFound,
    QuotaExceeded,
    StateConflict,
    UnknownDependency,
    VersionConflict,
)
from aliquot_schema.identity.accounts import User
from aliquot_schema.ids import KeyId, ProjectId, SessionId, UserId, kernel_id
from aliquot_schema.quotas import Account, Quota, QuotaScope, account_id, quota_id
from aliquot_schema.reasons import Reason
from aliquot_schema.requests import Caller, NewFallback, NewSession, Role
from aliquot_schema.resources.slots import ResourceSlot
from aliquot_schema.sessions import Priority
from aliquot_schema.states import SessionState as S
from aliquot_schema.views.admin import NewQuota
from service_bench import agent
from service_stage import CALLER, Stage, during_a_pass, stage

pytestmark = pytest.mark.anyio

OWNER = Caller(user=UserId("ann"), request_id="req_test", role=Role.USER)
STRANGER = Caller(user=UserId("bob"), request_id="req_test", role=Role.USER)
OPERATOR = Caller(user=UserId("olga"), request_id="req_test", role=Role.OPERATOR)


def asked(**more: Any) -> NewSession:
    """A session of one device."""
    request: dict[str, Any] = {"argv": ("true",), "shell": None, "slots": [("cuda.device", "1")]}
    return NewSession(**(request | more))


def named(name: str, *after: str) -> NewSession:
    """A session of a batch that awaits others in it."""
    return asked(local_name=name, depends_on=[(other, "after_ok") for other in after])


async def submitted(on: Stage, requests: Sequence[NewSession]) -> list[SessionId]:
    created = await on.sessions.create_sessions(CALLER, requests)
    return [SessionId(result.session.id) for result in created.results]


async def ended(on: Stage, session_id: SessionId, *, code: int = 0) -> None:
    """Let its first rank exit, with the consequences."""
    on.executor.end_kernel(kernel_id(session_id, attempt=on.session(session_id).attempt, rank=0), code=code)
    await on.settle()
    await on.advance()


async def test_sessions_of_a_batch_start_in_the_order_of_their_dependencies() -> None:
    async with stage([agent("a", devices=4)]) as on:
        batch = [named("last", "left", "right"), named("left", "first"), named("right", "first"), named("first")]
        last, left, right, first = await submitted(on, batch)
        await on.advance()
        assert [on.session(one).state for one in (first, left, right, last)] == [
            S.RUNNING,
            S.QUEUED,
            S.QUEUED,
            S.QUEUED,
        ]
        await ended(on, first)
        await ended(on, left)
        assert [on.session(one).state for one in (right, last)] == [S.RUNNING, S.QUEUED]
        await ended(on, right)
        assert on.session(last).state is S.RUNNING


@pytest.mark.parametrize(
    ("batch", "error", "says"),
    [
        ([named("a", "c"), named("b", "a"), named("c", "b")], InvalidRequest, "a -> c -> b -> a"),
        ([named("a", "a")], InvalidRequest, "a -> a"),
        ([named("a"), named("b", "nobody")], UnknownDependency, "nobody"),
        ([named("a"), named("b", "ses_none")], UnknownDependency, "ses_none"),
        ([named("a"), named("a")], InvalidRequest, "two sessions"),
        ([named("a"), asked(slots=[("cuda.device", "9")])], AliquotError, "9"),
        ([named("a"), asked(local_name="odd", priority="huge")], InvalidRequest, r"sessions\[1\] \(odd\)"),
        ([asked(idempotency_key="k"), asked(), asked(idempotency_key="k")], InvalidRequest, r"\[0\] and sessions\[2\]"),
        ([], InvalidRequest, "empty"),
    ],
)
async def test_a_batch_of_which_a_part_is_wrong_is_refused_whole(
    batch: list[NewSession], error: type[Exception], says: str
) -> None:
    async with stage([agent("a", devices=2)]) as on:
        before = on.state.revision
        with pytest.raises(error, match=says):
            await on.sessions.create_sessions(CALLER, batch)
        assert (on.state.revision, dict(on.state.sessions)) == (before, {})


async def test_a_batch_names_the_session_whose_key_was_used_for_another_request() -> None:
    async with stage([agent("a", devices=2)]) as on:
        await on.sessions.create_session(CALLER, asked(idempotency_key="k"))
        with pytest.raises(IdempotencyMismatch, match=r"^sessions\[1\]: idempotency_key: it was used for"):
            await submitted(on, [asked(), asked(idempotency_key="k", argv=("false",))])


async def test_a_name_without_a_visible_character_is_none() -> None:
    async with stage([agent("a", devices=1)]) as on:
        names = (" ", "\n\t", "\u200b", "", " a ")
        given = await submitted(on, [asked(name=name) for name in names])
        assert [on.session(one).name for one in given] == [None, None, None, None, " a "]


async def test_the_owner_cannot_release_a_session_held_by_an_operator() -> None:
    async with stage([agent("a", devices=1)]) as on:
        session = await on.submit()
        with pytest.raises(Forbidden):
            await on.sessions.hold_session(STRANGER, session, None)
        await on.sessions.hold_session(OPERATOR, session, None)
        await on.advance()
        assert (on.session(session).state, on.session(session).held_by) == (S.HELD, "olga")
        for caller in (OWNER, STRANGER):
            with pytest.raises(Forbidden):
                await on.sessions.release_session(caller, session, None)
        await on.sessions.release_session(OPERATOR, session, None)
        await on.advance()
        assert on.session(session).state is S.RUNNING
        with pytest.raises(StateConflict):
            await on.sessions.hold_session(OPERATOR, session, None)


async def test_an_owner_can_hold_and_release_their_session() -> None:
    async with stage([agent("a", devices=1)]) as on:
        session = await on.submit(held=True)
        await on.advance()
        assert on.session(session).state is S.HELD
        await on.sessions.release_session(OWNER, session, None)
        await on.sessions.hold_session(OWNER, session, None)
        assert (on.session(session).state, on.session(session).held_by) == (S.HELD, "ann")
        await on.sessions.release_session(OWNER, session, None)
        await on.advance()
        assert on.session(session).state is S.RUNNING


async def test_a_failed_session_is_retried_as_a_new_attempt_once_it_has_ended() -> None:
    async with stage([agent("a", devices=1)]) as on:
        session = await on.submit()
        await on.advance()
        with pytest.raises(StateConflict):
            await on.sessions.retry_session(OWNER, session, None)
        await ended(on, session, code=3)
        assert on.session(session).state is S.FAILED
        with pytest.raises(Forbidden):
            await on.sessions.retry_session(STRANGER, session, None)
        await on.sessions.retry_session(OWNER, session, None)
        await on.advance()
        again = on.session(session)
        assert (again.state, again.attempt, again.exit_code) == (S.RUNNING, 2, None)
        await ended(on, session)
        assert on.session(session).state is S.COMPLETED


async def test_users_may_ask_for_the_priorities_that_the_policy_leaves_to_them() -> None:
    async with stage([agent("a", devices=1)]) as on:
        with pytest.raises(Forbidden, match="only operators may set high; your highest priority is normal"):
            await on.sessions.create_session(OWNER, asked(priority="high"))
        with pytest.raises(Forbidden, match="only operators, with a key of at least the scope operate, may set high"):
            await on.sessions.create_session(replace(OWNER, key_id=KeyId("key_1")), asked(priority="high"))
        created = await on.sessions.create_session(OWNER, asked(priority="low"))
        session = SessionId(created.session.id)
        with pytest.raises(Forbidden, match="normal"):
            await on.sessions.update_session_priority(OWNER, session, "high", None)
        assert on.session(session).priority is Priority.LOW
        await on.sessions.update_session_priority(OPERATOR, session, "high", None)
        assert on.session(session).priority is Priority.HIGH


async def test_viewers_may_not_submit() -> None:
    async with stage([agent("a", devices=1)]) as on:
        viewer = Caller(user=UserId("vic"), request_id="req_test", role=Role.VIEWER)
        with pytest.raises(Forbidden):
            await on.sessions.create_session(viewer, asked())
        with pytest.raises(Forbidden):
            await on.sessions.create_sessions(viewer, [asked()])


async def test_a_quota_refuses_sessions_that_could_never_start_and_too_many_waiting_tasks() -> None:
    async with stage([agent("a", devices=2)]) as on:
        quota = Quota(
            id=quota_id(QuotaScope.USER, "ann"),
            scope=QuotaScope.USER,
            name="ann",
            max_slots=ResourceSlot.parse({"cuda.device": "1"}),
            max_queued=2,
        )
        await on.journal.transact(lambda draft: draft.put(quota, "set"), actor="olga")
        before = on.state.revision
        with pytest.raises(QuotaExceeded):
            await on.submit(devices=2)
        for batch in ([asked(), asked(), asked()], [asked(array="0-2")]):
            with pytest.raises(QuotaExceeded) as refused:
                await on.sessions.create_sessions(CALLER, batch)
            assert (refused.value.resource, refused.value.limit) == ("queued", "2")
        assert on.state.revision == before
        await submitted(on, [asked(), asked()])


async def test_a_quota_of_zero_prevents_sessions_with_that_slot() -> None:
    async with stage([agent("a", devices=2)]) as on:
        office = Quotas(state=on.state, journal=on.journal, clock=on.clock)
        waiting = await on.submit()
        none = NewQuota(scope=QuotaScope.PROJECT, name="default", max_slots=[("cuda.device", "0")])
        changed = await office.set_quota(CALLER, none, None)
        assert [(slot.slot, slot.amount) for slot in changed.quota.max_slots] == [("cuda.device", "0")]
        twice = NewQuota(scope=QuotaScope.PROJECT, name="default", max_slots=[("cpu", "0"), ("cpu", "4")])
        with pytest.raises(InvalidRequest, match="max_slots: a slot appears twice"):
            await office.set_quota(CALLER, twice, None)
        with pytest.raises(QuotaExceeded, match=r"may hold at most 0 GPUs"):
            await on.submit(slots=[("cuda.shares", "0.1")])
        await on.advance()
        assert (on.session(waiting).state, on.state.verdicts[waiting].reason) == (S.QUEUED, Reason.QUOTA)
        await office.remove_quota(CALLER, QuotaScope.PROJECT, "default", None)
        await on.advance()
        assert on.session(waiting).state is S.RUNNING


@pytest.mark.parametrize(
    ("change", "begins"),
    [
        ({"slots": [("cuda.device", "5")]}, "slots: cuda.device: a kernel asks for 5"),
        ({"slots": [("tpu.device", "1")]}, "slots: no agent has slot tpu.device"),
        ({"labels": [("room", "cold")]}, "labels: no registered agent"),
        ({"cluster_size": 9}, "cluster_size: all agents together"),
        (
            {"fallbacks": [NewFallback(slots=[("tpu.device", "1")], after_s=60)], "slots": [("cpu", "1")]},
            "fallbacks: number 1",
        ),
    ],
)
async def test_an_impossible_request_is_refused_with_the_name_of_the_field(change: dict[str, Any], begins: str) -> None:
    async with stage([agent("a", devices=4)]) as on:
        with pytest.raises(AliquotError) as refused:
            await on.sessions.create_session(CALLER, asked(**change))
        assert refused.value.message.startswith(begins)
        with pytest.raises(AliquotError) as refused:
            await on.sessions.create_sessions(CALLER, [asked(), asked(**change, local_name="big")])
        assert refused.value.message.startswith(f"sessions[1] (big): {begins}")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"pool": "attic"}, "attic"),
        ({"fallbacks": [NewFallback(slots=[("cuda.device", "2")], after_s=60)]}, "asks for more"),
        ({"fallbacks": [NewFallback(slots=[("cuda.device", "1")], after_s=60)]}, "the same"),
        ({"max_parallel": 2}, "job array"),
        ({"local_name": "alone"}, "create_sessions"),
    ],
)
async def test_invalid_options_of_a_session_are_refused_with_the_reason(change: dict[str, Any], says: str) -> None:
    async with stage([agent("a", devices=4)]) as on:
        with pytest.raises(InvalidRequest, match=says):
            await on.sessions.create_session(CALLER, asked(**change))


VISION = ProjectId("vision")


async def test_the_only_project_of_a_user_is_their_default_project() -> None:
    member, of_two = (replace(OWNER, projects=projects) for projects in ((VISION,), (VISION, ProjectId("x"))))
    async with stage([agent("a", devices=4)]) as on:
        for caller, project, expected in (
            (member, None, "vision"),
            (member, "default", "default"),
            (of_two, None, "default"),
            (OWNER, None, "default"),
        ):
            created = await on.sessions.create_session(caller, asked(project=project))
            assert created.session.project == expected


async def test_sessions_are_refused_for_unknown_projects_and_accepted_for_created_ones() -> None:
    async with stage([agent("a", devices=4)]) as on:
        quotas = Quotas(state=on.state, journal=on.journal, clock=on.clock)
        await quotas.set_quota(CALLER, NewQuota(scope=QuotaScope.PROJECT, name="vision"), 0)
        for caller in (CALLER, OPERATOR):
            await on.sessions.create_session(caller, asked(project="vision"))
            with pytest.raises(InvalidRequest) as refused:
                await on.sessions.create_session(caller, asked(project="vison"))
            assert refused.value.message == (
                "project: there is no project vison; did you mean vision? An operator creates projects with "
                "`aliquot project create NAME`"
            )
        assert [one.name for one in on.queries.projects(CALLER, name="vision")] == ["vision"]
        other = replace(OWNER, projects=(ProjectId("x"), ProjectId("y")))
        with pytest.raises(Forbidden, match=r"ann is not a member of vision; your projects are x, y\. Ask an admin"):
            await on.sessions.create_session(other, asked(project="vision"))


async def test_a_project_in_use_before_projects_were_created_exists() -> None:
    """By its usage, although it has no session and no quota left."""
    async with stage([agent("a", devices=4)]) as on:
        account = Account(id=account_id(VISION, OWNER.user), project=VISION, user=OWNER.user, charged=1)
        await on.journal.persist(lambda draft: draft.put(account, "changed"), actor="ann")
        await on.sessions.create_session(CALLER, asked(project="vision"))


async def test_a_project_is_created_again_and_limited_after_its_quota_was_removed() -> None:
    async with stage([agent("a", devices=4)]) as on:
        quotas = Quotas(state=on.state, journal=on.journal, clock=on.clock)
        created = NewQuota(scope=QuotaScope.PROJECT, name="vision")
        await quotas.set_quota(CALLER, created, 0)
        await quotas.set_quota(CALLER, created, 0)
        limited = await quotas.set_quota(CALLER, replace(created, weight=2), 0)
        with pytest.raises(VersionConflict):
            await quotas.set_quota(CALLER, created, 0)
        await quotas.remove_quota(CALLER, QuotaScope.PROJECT, "vision", limited.quota.version)
        await on.sessions.create_session(CALLER, asked(project="vision"))
        with pytest.raises(InvalidRequest, match="slash"):
            await quotas.set_quota(CALLER, replace(created, name="a/b"), 0)


async def test_a_project_is_deleted_when_nothing_uses_it_and_can_be_created_again() -> None:
    async with stage([agent("a", devices=4)]) as on:
        quotas = Quotas(state=on.state, journal=on.journal, clock=on.clock)
        account = Account(id=account_id(VISION, OWNER.user), project=VISION, user=OWNER.user, charged=1)
        ann = User(id=OWNER.user, role=Role.USER, projects=(VISION,))
        await on.journal.persist(lambda draft: draft.put(account, "changed"), actor="ann")
        await on.journal.persist(lambda draft: draft.put(ann, "created"), actor="root")
        limited = NewQuota(scope=QuotaScope.PROJECT, name="vision", weight=2)
        await quotas.set_quota(CALLER, limited, 0)
        made = await on.sessions.create_session(CALLER, asked(project="vision", held=True))
        uses = r"members are ann .*; 1 of its sessions wait and 0 run .*; it has a quota"
        with pytest.raises(StateConflict, match=uses):
            await quotas.delete_project(CALLER, "vision")
        with pytest.raises(StateConflict, match="max-queued 0` closes it"):
            await quotas.delete_project(CALLER, "default")
        with pytest.raises(NotFound, match="there is no project video"):
            await quotas.delete_project(CALLER, "video")
        with pytest.raises(Forbidden):
            await quotas.delete_project(OPERATOR, "vision")

        await on.sessions.cancel_session(CALLER, made.session.id, None)
        await quotas.remove_quota(CALLER, QuotaScope.PROJECT, "vision", None)
        left = replace(on.state.people.users[ann.id], projects=())
        await on.journal.persist(lambda draft: draft.put(left, "changed"), actor="root")
        assert (await quotas.delete_project(CALLER, "vision")).name == "vision"
        assert [one.name for one in project_views(on.state, now_us=0)] == []
        with pytest.raises(InvalidRequest, match="there is no project vision"):
            await on.sessions.create_session(CALLER, asked(project="vision"))
        with pytest.raises(NotFound):
            await quotas.delete_project(CALLER, "vision")

        await quotas.set_quota(CALLER, replace(limited, weight=None), 0)
        await on.sessions.create_session(CALLER, asked(project="vision"))
        assert [one.name for one in project_views(on.state, now_us=0)] == ["vision"]


async def test_the_default_project_can_be_closed() -> None:
    async with stage([agent("a", devices=4)]) as on:
        quotas = Quotas(state=on.state, journal=on.journal, clock=on.clock)
        await quotas.set_quota(CALLER, NewQuota(scope=QuotaScope.PROJECT, name="default", max_queued=0), None)
        member = replace(OWNER, projects=(VISION,))
        assert (await on.sessions.create_session(member, asked())).session.project == "vision"
        for caller in (OWNER, CALLER):
            with pytest.raises(QuotaExceeded) as refused:
                await on.sessions.create_session(caller, asked())
            assert refused.value.message == (
                "Project default takes no sessions: its quota allows 0 waiting tasks. Submit to another project"
            )


async def test_a_session_whose_dependency_is_retried_while_a_pass_decides_does_not_fail() -> None:
    async with stage([agent("a", devices=1)]) as on:
        first = await on.submit()
        after = await on.submit(depends_on=[(first, "after_ok")])
        await on.advance()
        on.executor.end_kernel(kernel_id(first, attempt=1, rank=0), code=1)
        await on.settle()
        with during_a_pass(lambda: on.sessions.retry_session(CALLER, first, None)):
            await on.allocator.run_once()
        assert {on.session(name).state for name in (first, after)} == {S.QUEUED}
