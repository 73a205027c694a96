"""Session templates: visibility, permissions to change them, and their audit events."""

import json

import pytest
from msgspec.structs import asdict, replace

from aliquot.service.audit.audit import HIDDEN, Change, change_view
from aliquot.service.sessions.templates import Templates
from aliquot.service.state.identities import Identities
from aliquot.store.audit.log import redacted
from aliquot_schema.errors import AliquotError, Forbidden, InvalidRequest, LimitExceeded, NotFound
from aliquot_schema.ids import KeyId, ProjectId, UserId
from aliquot_schema.requests import Caller, Role
from aliquot_schema.views.templates import FIELDS_BYTES_MAX, TEMPLATES_MAX
from service_bench import agent
from service_stage import Stage, stage

pytestmark = pytest.mark.anyio

ANN = Caller(user=UserId("ann"), request_id="req_test", role=Role.USER, projects=(ProjectId("vision"),))
BOB = replace(ANN, user=UserId("bob"))
EVE = replace(ANN, user=UserId("eve"), projects=())
OLGA = replace(EVE, user=UserId("olga"), role=Role.OPERATOR)
FIELDS = json.dumps({"command": "python train.py", "amount": "2"})


def templates(on: Stage) -> Templates:
    return Templates(state=on.state, journal=on.journal, clock=on.clock)


async def test_templates_of_a_project_are_visible_only_to_its_members_and_operators() -> None:
    async with stage([agent("a", devices=1)]) as on:
        await on.create_project("vision")
        made = templates(on)
        saved = await made.save_template(ANN, "vision", " train ", FIELDS)
        assert (saved.template.name, saved.template.saved_by, saved.template.fields) == ("train", "ann", FIELDS)
        await made.save_template(EVE, "default", "shared", "{}")
        names = {caller.user: [one.name for one in made.templates(caller)] for caller in (ANN, BOB, EVE, OLGA)}
        assert names == {
            "ann": ["shared", "train"],
            "bob": ["shared", "train"],
            "eve": ["shared"],
            "olga": ["shared", "train"],
        }


async def test_only_the_author_and_operators_may_change_a_template() -> None:
    async with stage([agent("a", devices=1)]) as on:
        await on.create_project("vision")
        made = templates(on)
        await made.save_template(ANN, "vision", "train", FIELDS)
        for change in (made.save_template(BOB, "vision", "train", "{}"), made.delete_template(BOB, "vision", "train")):
            with pytest.raises(Forbidden, match="of ann"):
                await change
        await made.save_template(OLGA, "vision", "train", "{}")
        assert [(one.fields, one.author, one.saved_by) for one in made.templates(BOB)] == [("{}", "ann", "olga")]
        await made.save_template(ANN, "vision", "train", "{}")
        await made.save_template(BOB, "vision", "other", "{}")
        await made.delete_template(OLGA, "vision", "train")
        assert [one.name for one in made.templates(ANN)] == ["other"]
        with pytest.raises(NotFound):
            await made.delete_template(ANN, "vision", "train")
        await made.save_template(BOB, "vision", "train", FIELDS)
        assert [one.saved_by for one in made.templates(ANN)] == ["bob", "bob"]
        kinds = [event.kind for event in await on.store.events_after(0, limit=100) if "template" in event.kind]
        assert kinds == [f"action.template_{what}" for what in ("saved", "saved", "saved", "saved", "deleted", "saved")]


@pytest.mark.parametrize(
    ("caller", "project", "name", "fields", "error"),
    [
        (replace(ANN, role=Role.VIEWER), "vision", "x", "{}", Forbidden),
        (EVE, "vision", "x", "{}", Forbidden),
        (OLGA, "nothing", "x", "{}", InvalidRequest),
        (ANN, "vision", "", "{}", InvalidRequest),
        (ANN, "vision", "x" * 61, "{}", InvalidRequest),
        (ANN, "vision", "a\nb", "{}", InvalidRequest),
        (ANN, "vision", "x", "[]", InvalidRequest),
        (ANN, "vision", "x", "{", InvalidRequest),
        (ANN, "vision", "x", json.dumps({"command": "x" * FIELDS_BYTES_MAX}), LimitExceeded),
    ],
)
async def test_invalid_templates_are_refused(
    caller: Caller, project: str, name: str, fields: str, error: type[AliquotError]
) -> None:
    async with stage([agent("a", devices=1)]) as on:
        await on.create_project("vision")
        made = templates(on)
        with pytest.raises(error):
            await made.save_template(caller, project, name, fields)
        assert made.templates(OLGA) == ()


async def test_the_number_of_templates_of_a_project_is_limited() -> None:
    async with stage([agent("a", devices=1)]) as on:
        made = templates(on)
        for number in range(TEMPLATES_MAX):
            await made.save_template(EVE, "default", f"number {number}", "{}")
        with pytest.raises(LimitExceeded):
            await made.save_template(EVE, "default", "one more", "{}")
        await made.save_template(EVE, "default", "number 1", FIELDS)
        await made.delete_template(EVE, "default", "number 2")
        await made.save_template(EVE, "default", "one more", "{}")


async def test_personal_templates_are_visible_only_to_their_owner() -> None:
    async with stage([agent("a", devices=1)]) as on:
        made = templates(on)
        for caller in (ANN, BOB):
            await made.save_template(
                caller, "", "train", json.dumps({"command": f"{{{{lr=0.1}}}} {caller.user} {{{{n}}}}"})
            )
        assert [(one.project, one.saved_by) for one in made.templates(ANN)] == [("", "ann")]
        assert made.templates(OLGA) == ()
        assert [(one.name, one.default) for one in made.templates(BOB)[0].parameters] == [("lr", "0.1"), ("n", None)]
        await made.delete_template(BOB, "", "train")
        assert (made.templates(BOB), len(made.templates(ANN))) == ((), 1)
        many = json.dumps({"command": " ".join(f"{{{{a{number}}}}}" for number in range(33))})
        with pytest.raises(LimitExceeded, match="parameters"):
            await made.save_template(ANN, "", "many", many)


async def test_the_audit_shows_personal_templates_only_to_admins_and_never_environment_values() -> None:
    form = {"command": "python train.py", "environment": "TOKEN=hunter2"}
    async with stage([agent("a", devices=1)]) as on:
        made = templates(on)
        for project in ("", "default"):
            await made.save_template(EVE, project, "train", json.dumps(form))
        events = await on.store.events_after(0, limit=100)
    saved = [event for event in events if event.kind == "action.template_saved"]
    shown = {}
    for event in saved:
        after = redacted(asdict(event.record))
        change = Change(
            number=event.number,
            at_us=event.at_us,
            kind=event.kind,
            entity_id=event.entity_id,
            actor=event.actor,
            request_id=None,
            pass_number=None,
            before=after,
            after=after,
        )
        for is_admin in (False, True):
            view = change_view(change, people=Identities(), shows_commands=is_admin)
            [facts] = [field for field in view.fields if field.name == "facts"]
            assert facts.before == facts.after
            found = json.loads(facts.after)
            shown[found["project"], is_admin] = found["fields"]
            assert "hunter2" in event.record.facts["fields"]  # type: ignore[union-attr] # an action
    assert shown.pop(("", False)) == HIDDEN
    assert {text for text in shown.values()} == {'{"command":"python train.py","environment":"***"}'}
    assert len(shown) == 3


async def test_the_audit_names_the_key_that_saved_and_deleted_a_template() -> None:
    async with stage([agent("a", devices=1)]) as on:
        made, bot = templates(on), replace(EVE, key_id=KeyId("key_bot"))
        await made.save_template(bot, "default", "train", "{}")
        await made.delete_template(bot, "default", "train")
        events = await on.store.events_after(0, limit=100)
    assert [event.actor for event in events if event.kind.startswith("action.template")] == ["eve/key_bot"] * 2
