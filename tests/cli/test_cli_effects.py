"""Effects of a change on waiting sessions, as `what-if` and previews print them."""

from typing import Any

import pytest

from aliquot.cli.cluster.effects import lines_of
from aliquot.client.generated.explanations import WhatIf
from cli_tables import filled

NONE = "no waiting session would start later or sooner"
STOPPED = "scheduling is stopped, so nothing starts; the times are those if it were started now"
UNKNOWN = "later starts are unknown: the queue is long and has bookings"


@pytest.mark.parametrize(
    ("note", "expected"),
    [
        (None, [NONE]),
        (STOPPED, [NONE, STOPPED]),
        (UNKNOWN, [UNKNOWN]),
        (f"{STOPPED}; {UNKNOWN}", [f"{STOPPED}; {UNKNOWN}"]),
    ],
)
def test_a_change_without_effect_says_so_unless_later_starts_are_unknown(note: str | None, expected: list[str]) -> None:
    client: Any = None
    assert list(lines_of(client, filled(WhatIf, note=note), None)) == expected
