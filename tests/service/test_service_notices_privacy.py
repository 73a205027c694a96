"""Mail addresses are visible to their user and admins."""

import pytest

from aliquot.service.audit.audit import HIDDEN, Change, change_view
from aliquot.service.state.identities import Identities


@pytest.mark.parametrize(
    ("is_admin", "before", "after"),
    [(True, '"old@example.org"', '"new@example.org"'), (False, f'"{HIDDEN}"', f'"{HIDDEN}"')],
)
def test_the_record_shows_addresses_to_admins_alone(is_admin: bool, before: str, after: str) -> None:
    change = Change(
        number=7,
        at_us=1,
        kind="subscriber.changed",
        entity_id="ann",
        actor="ann",
        request_id=None,
        pass_number=None,
        before={"email": "old@example.org", "notify": ["session_failed"]},
        after={"email": "new@example.org", "notify": []},
    )
    first, second = change_view(change, people=Identities(), shows_commands=is_admin).fields
    assert (first.name, first.before, first.after) == ("email", before, after)
    assert (second.name, second.after) == ("notify", "[]")


@pytest.mark.parametrize(("is_admin", "shown"), [(True, ["train", "nccl"]), (False, [])])
def test_the_record_shows_commands_and_preflights_to_admins_alone(is_admin: bool, shown: list[str]) -> None:
    spec = {"argv": ["train"], "cluster_size": 2, "preflight": {"argv": ["nccl"], "limit_ms": 60_000}}
    change = Change(
        number=7,
        at_us=1,
        kind="session.changed",
        entity_id="ses_1",
        actor="ann",
        request_id=None,
        pass_number=None,
        before={"spec": {**spec, "cluster_size": 1, "preflight": None}},
        after={"spec": spec},
    )
    (field,) = change_view(change, people=Identities(), shows_commands=is_admin).fields
    assert [word for word in ("train", "nccl") if word in field.after] == shown
    assert ("train" in (field.before or "")) is is_admin
    assert '"limit_ms": 60000' in field.after
