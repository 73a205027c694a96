"""Where somebody has his mail is his to see, and admins'."""

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
