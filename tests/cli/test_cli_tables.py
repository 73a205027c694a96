"""Command-line tables: they fit the terminal, and a pipe gets all content."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import cast

import pytest

from aliquot.cli.cluster.agents import agents_table, disk_shortages
from aliquot.cli.cluster.tune import print_tuning
from aliquot.cli.connection.output import count_text
from aliquot.cli.connection.tables import (
    BriefCell,
    Column,
    Table,
    age,
    columns_of,
    rough_duration,
    short_id,
    shortened,
    shortened_reason,
    with_names,
)
from aliquot.client import BlockingClient
from aliquot.client.generated.agents import Agent
from aliquot.client.generated.alerts import Alert
from aliquot.client.generated.backtests import Backtest, BacktestRow, Tuning
from aliquot.client.generated.enums import AlertRule
from aliquot.client.generated.pages import AlertEdge, AlertUncountedConnection
from cli_tables import (
    NOW,
    RECORD,
    TABLES,
    WIDTHS,
    agents,
    filled,
    gpu_map,
    printed,
    projects,
    queue,
    session_id,
    sessions,
)

ID = session_id(12)
ROWS = (queue, sessions, agents, projects)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_as_recorded(name: str, width: int) -> None:
    recorded = (RECORD / f"{name}-{width}.txt").read_text(encoding="utf-8")
    assert printed(name, width) == recorded, "python tests/support/cli_tables.py writes the record again"


@pytest.mark.parametrize("name", TABLES)
def test_no_line_is_wider_than_the_terminal(name: str) -> None:
    for width in range(70, 200):
        assert [line for line in TABLES[name](width) if columns_of(line) > width] == []


@pytest.mark.parametrize("make", ROWS)
@pytest.mark.parametrize("width", WIDTHS)
def test_a_row_is_at_most_two_lines_and_ends_inside_no_word(make: Callable[[], Table], width: int) -> None:
    table = make()
    _, *lines = table.in_terminal(width)
    rows = [line for line in lines if not line.startswith("  ")]
    assert len(rows) == len(table.in_pipe()) - 1
    assert not re.search(r"(?m)^  .*\n  ", "\n".join(lines)), "a note has two lines"
    words = set(re.split(r"\s+", "\n".join(table.in_terminal(1000))))
    broken = [word for line in lines for word in line.split() if word not in words and not word.endswith("…")]
    assert broken == []


@pytest.mark.parametrize("make", ROWS)
def test_a_pipe_gets_whole_cells_without_padding(make: Callable[[], Table]) -> None:
    heads, *lines = make().in_pipe()
    assert {line.count("\t") for line in lines} == {heads.count("\t")}
    assert not any("  " in line or "…" in line for line in lines)


def test_a_pipe_gets_whole_ids_and_times() -> None:
    (line, *_) = queue().in_pipe()[1:]
    assert line.startswith(session_id(0) + "\t1\t")
    assert f"\t{(NOW - timedelta(minutes=13)).astimezone():%Y-%m-%d %H:%M:%S}\t" in line
    assert f"held by {session_id(101)}" in line


def test_a_pipe_gets_the_model_and_the_amount_on_each_line_of_a_gpu() -> None:
    lines = gpu_map().in_pipe()
    gpus = [line.split("\t") for line in lines if "\t" in line]
    assert len(gpus) == 16
    assert {cells[1] for cells in gpus} == {"NVIDIA H100 80GB HBM3"}
    assert [cells[2] for cells in gpus[:5]] == ["1.00", "1.00", "0.75", "1.00", "0.00"]
    assert session_id(101) in gpus[0][4]


def test_sixteen_gpus_fit_a_small_terminal_and_sixty_four_a_line_each_node() -> None:
    sixteen = gpu_map().in_terminal(80, colours=False)
    assert len(sixteen) <= 24
    assert sum("H100" in line for line in sixteen) == 2
    assert sum(line.startswith("  cuda") for line in sixteen) == 16
    assert len(gpu_map(nodes=8).compact(80, colours=False)) == 8 + 2


def test_colours_change_no_width() -> None:
    plain = gpu_map().in_terminal(80, colours=False)
    coloured = gpu_map().in_terminal(80, colours=True)
    assert coloured != plain
    assert [re.sub(r"\x1b\[\d+m", "", line).rstrip() for line in coloured] == plain


def test_unimportant_columns_are_left_out_after_long_cells_are_shortened() -> None:
    table = Table(
        Column("id"),
        Column("name", importance=5, width_min=6),
        Column("extra", importance=1),
        Column("empty"),
    )
    table.add("12345678", "a rather long name", "seldom", None)
    assert table.in_terminal(80) == ["id        name                extra", "12345678  a rather long name  seldom"]
    assert table.in_terminal(30) == ["id        name          extra", "12345678  a rather…     seldom"]
    assert table.in_terminal(20) == ["id        name", "12345678  a rather…"]
    assert table.in_terminal(9) == ["id", "12345678"]


def test_a_table_shows_control_characters_as_such() -> None:
    table = Table(Column("name"))
    table.add("a\x1b[31m\tb", note="c\nd\x9b")
    assert "\x1b" not in "".join(table.in_terminal(80)) + "".join(table.in_pipe())
    assert len(table.in_terminal(80)) == 3


def test_a_short_id_is_the_end_of_the_id_with_the_task_index() -> None:
    assert short_id(ID) == BriefCell(ID[-8:], ID)
    assert short_id(session_id(12, 7)).text == f"{ID[-8:]}_7"
    assert short_id(ID, full=True).text == ID


def test_ids_in_a_reason_become_names() -> None:
    text = f"Waits behind {ID} and {session_id(13, 4)}."
    assert with_names(text, {ID: "big"}) == f"Waits behind big and {session_id(13)[-8:]}_4."


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0s"),
        (59, "59s"),
        (13 * 60 + 59, "13m"),
        (7080, "1h58m"),
        (7200, "2h"),
        (39_600, "11h"),
        (180_000, "2d2h"),
    ],
)
def test_ages_are_printed_as_rough_durations(seconds: float, text: str) -> None:
    assert rough_duration(seconds) == text
    now = datetime(2026, 3, 1, tzinfo=UTC)
    assert age(now - timedelta(seconds=seconds), now=now).text == text


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("two words", 9, "two words"),
        ("two words", 8, "two…"),
        ("two words", 4, "two…"),
        ("two, three and", 6, "two…"),
        ("oneword", 4, "one…"),
        ("名前名前", 5, "名前…"),
        ("x", 0, ""),
    ],
)
def test_texts_are_shortened_at_the_end_of_a_word(text: str, width: int, expected: str) -> None:
    assert shortened(text, width) == expected


@pytest.mark.parametrize("width", [38, 60, 78, 98])
@pytest.mark.parametrize("holders", ["resnet", "resnet, bert-large and 4 more", "resnet" + "-run" * 20])
def test_a_shortened_wait_reason_still_names_the_holders(holders: str, width: int) -> None:
    head = "Needs 4 GPUs of 80 GiB on one agent; the most that one has free is 1 of 8, on agent dgx-a"
    found = shortened_reason(f"{head}; held by {holders}", width)
    assert len(found) <= width
    assert found.startswith("Needs 4 GPUs")
    assert " held by resnet" in found


@pytest.mark.parametrize("name", ["llama", "pretrain-of-the-largest-model-of-all"])
def test_a_shortened_wait_reason_shows_the_free_amount_at_80_columns(name: str) -> None:
    head = "Each kernel needs 8 GPUs; agents have at most 2 free"
    assert shortened_reason(f"{head}; held by {name}, bert-large and 4 more", 78).startswith(
        f"{head}; held by {name[:8]}"
    )


def test_a_reason_that_fits_or_has_no_holders_is_shortened_as_any_text() -> None:
    assert shortened_reason("Needs 2 GPUs; held by resnet", 40) == "Needs 2 GPUs; held by resnet"
    assert shortened_reason("Needs 2 GPUs of one node", 16) == shortened("Needs 2 GPUs of one node", 16)


def test_a_tuning_report_notes_missing_passes(capsys: pytest.CaptureFixture[str]) -> None:
    notes = ("first part: 7 passes are missing in the ledger",)
    tuning = filled(Tuning, unseen=(filled(BacktestRow, sessions=40),), notes=notes, verdict="Better.")
    print_tuning(filled(Backtest), tuning)
    assert "note: first part: 7 passes are missing in the ledger" in capsys.readouterr().out.splitlines()


def test_counts_of_one_are_singular(capsys: pytest.CaptureFixture[str]) -> None:
    tuning = filled(Tuning, unseen=(filled(BacktestRow, sessions=1),), tries=1, verdict="No change.")
    print_tuning(filled(Backtest), tuning)
    assert "on 1 later session that the search has not seen; 1 policy was tried before" in capsys.readouterr().out
    assert [count_text(count, "session") for count in (0, 1, 2)] == ["0 sessions", "1 session", "2 sessions"]


def test_an_agent_whose_launches_are_paused_by_a_full_disk_says_so() -> None:
    shown = [filled(Agent, id=name, state="alive", schedulable=True) for name in ("gpu01", "gpu02")]
    full = "on agent gpu01, the disk of /data has 3 MiB free; 1 GiB must stay free"
    lines = agents_table(shown, shortages={"gpu01": full}).in_terminal(120)
    assert [line.split("  ")[0] for line in lines[1:]] == ["gpu01", "", "gpu02"]
    assert "alive, launches paused" in lines[1]
    assert lines[2].strip() == full
    assert "paused" not in lines[3]
    every = agents_table(shown, shortages={"server": full}).in_terminal(120)
    assert sum("alive, launches paused" in line for line in every) == 2
    alerts = [
        filled(Alert, rule=rule, subject=rule, message=full) for rule in (AlertRule.DISK_LOW, AlertRule.LONG_WAIT)
    ]
    page = filled(AlertUncountedConnection, edges=tuple(filled(AlertEdge, node=alert) for alert in alerts))
    client = SimpleNamespace(alerts=lambda **_: page)
    assert disk_shortages(cast("BlockingClient", client)) == {"disk_low": full}
