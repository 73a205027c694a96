"""Effects of a change on waiting sessions, as `what-if` and previews print them."""

from typing import Any

import pytest
from typer.testing import CliRunner

from aliquot.cli import main
from aliquot.cli.cluster.effects import lines_of
from aliquot.cli.session import show
from aliquot.client.generated.explanations import WhatIf
from aliquot.client.generated.inputs import CommandInput, CreateSessionInput
from aliquot.client.generated.previews import PlannedKernel, SessionPreview
from aliquot.client.generated.scalars import DeviceAmount, SlotGrant
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


def test_devices_of_an_added_node_are_named_as_those_of_the_node_it_is_like(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(show, "device_names", lambda client, agents: {"a11c": "cuda3"} if "gpu01" in agents else {})
    grant = SlotGrant(slot="cuda.device", devices=(DeviceAmount(device_id="a11c", amount="1"),))
    kernel = filled(PlannedKernel, agent_id="gpu01+2", resource_spec=(grant,))
    wanted = CreateSessionInput(command=CommandInput(argv=["true"]), slots=[])
    client: Any = None
    text = show.preview_text(client, filled(SessionPreview, kernels=(kernel,)), wanted)
    assert "on gpu01+2: 1 GPU of cuda3" in text


@pytest.mark.parametrize(
    ("words", "missing"),
    [
        (["what-if", "--gpus", "2", "--evict"], "--drain"),
        (["what-if", "--gpus", "2", "--count", "3"], "--like"),
        (["what-if", "--drain", "gpu01", "--time-limit", "8h"], "--gpus"),
        (["backtest", "--set", "order=sjf", "--count", "3"], "--like"),
        (["backtest", "--set", "order=sjf", "--set", "order=las"], "twice"),
        (["policy", "set", "weights.age=2", "weights.fair=3", "weights.age=4"], "twice"),
        (["policy", "set", "order=sjf", "--preview", "--try", "7d"], "either --preview"),
        (["report", "--html", "week.html", "--json"], "either --html or --json"),
        (["notices", "me", "--hear", "nothing", "--hear", "long_wait"], "--hear nothing"),
    ],
)
def test_an_option_that_would_have_no_effect_is_refused(words: list[str], missing: str) -> None:
    refused = CliRunner().invoke(main, words)
    assert refused.exit_code == 2
    assert missing in refused.stderr
