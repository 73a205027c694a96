"""`aliquot simulate`: input files, output, and errors."""

import json
import re
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from aliquot.cli import main
from aliquot.cli.trace_files import read_jobs
from aliquot.core.simulation.trace import SECOND_US
from aliquot_schema.errors import InvalidRequest

COLUMNS = "submit_s,duration_s,gpus,group,user,requested_walltime_s\n"
JOBS = "10,50,1,lab,ann,-1\n0,100.5,2,lab,bob,200\n20,30,2,shop,cy,60\n30,0,1,lab,ann,-1\n40,5,0,lab,ann,-1\n"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.csv"
    path.write_text(COLUMNS + JOBS)
    return path


def test_trace_rows_become_jobs_in_submission_order_without_empty_ones(trace: Path) -> None:
    first, second, third = read_jobs(trace)
    assert (first.user, first.project, first.milli, first.duration_ms) == ("bob", "lab", 2000, 100_500)
    assert [first.limit_ms, second.limit_ms, third.limit_ms] == [200_000, None, 60_000]
    assert [one.submit_us // SECOND_US for one in (first, second, third)] == [0, 10, 20]


def test_parquet_is_read_like_csv(trace: Path, tmp_path: Path) -> None:
    rows = [line.split(",") for line in JOBS.splitlines()]
    names = COLUMNS.strip().split(",")
    columns = {
        name: [row[index] if name in ("group", "user") else float(row[index]) for row in rows]
        for index, name in enumerate(names)
    }
    path = tmp_path / "jobs.parquet"
    parquet.write_table(pyarrow.table(columns), path)
    assert read_jobs(path) == read_jobs(trace)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("submit_s,gpus\n1,2\n", "row 1: there is no column duration_s"),
        (COLUMNS + "0,1,1,,,\n0,x,1,,,\n", "row 2: ValueError"),
        (COLUMNS + "0,1,1.5,,,\n", "give less than 1, or a whole number"),
        (COLUMNS + "nan,1,1,,,\n", "row 1: ValueError"),
        (COLUMNS, "no job that requested resources"),
    ],
)
def test_an_invalid_trace_is_refused_with_the_row(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(text)
    with pytest.raises(InvalidRequest) as refusal:
        read_jobs(path)
    assert message in refusal.value.message


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("0,1e18,1,low", "duration_s: 1e+18 s is more than 300 years"),
        ("1e18,1,1,low", "submit_s: 1e+18 s is more than 300 years"),
        ("0,1,1,-5", "priority: -5 is not low, normal"),
    ],
)
def test_a_value_out_of_range_names_its_column(tmp_path: Path, row: str, message: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(f"submit_s,duration_s,gpus,priority\n{row}\n")
    with pytest.raises(InvalidRequest, match=re.escape(message)):
        read_jobs(path)


def test_a_trace_of_a_spreadsheet_may_begin_before_its_origin(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("submit_s,duration_s,gpus\n-9,5,1\n0,5,1\n", encoding="utf-8-sig")
    done = CliRunner().invoke(main, ["simulate", str(path), "--gpus", "4", "--json"])
    assert json.loads(done.stdout)["fair_share"]["jobs"] == 2


def test_each_policy_gives_a_table_row_and_json_has_every_figure(trace: Path) -> None:
    options = ["simulate", str(trace), "--gpus", "2", "--policy", "fcfs", "--policy", "fair_share"]
    table = CliRunner().invoke(main, options)
    assert table.exit_code == 0, table.output
    assert "fcfs" in table.output
    assert "fair_share" in table.output
    figures = json.loads(CliRunner().invoke(main, [*options, "--json"]).stdout)
    assert set(figures) == {"fcfs", "fair_share"}
    assert figures["fcfs"]["jobs"] == 3
    assert figures["fcfs"]["wait"]["max_s"] == pytest.approx(130.5)
    assert [group["project"] for group in figures["fcfs"]["groups"]] == ["lab", "shop"]


def test_a_time_window_and_the_gpus_of_a_node_can_be_chosen(trace: Path) -> None:
    options = ["simulate", str(trace), "--gpus", "4", "--gpus-each", "2", "--from-s", "5", "--until-s", "20", "--json"]
    figures = json.loads(CliRunner().invoke(main, options).stdout)
    assert figures["fair_share"]["jobs"] == 1


def test_a_job_wider_than_a_node_runs_as_a_gang(trace: Path) -> None:
    options = ["simulate", str(trace), "--gpus", "2", "--gpus-each", "1", "--json"]
    outcome = CliRunner().invoke(main, options)
    assert outcome.exit_code == 0, outcome.output
    assert json.loads(outcome.stdout)["fair_share"]["jobs"] == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--gpus", "2", "--policy", "lottery"], "fair_share, fcfs, gang, las, priority, relative_age, sjf, srtf"),
        (["--gpus", "2", "--backfill", "greedy"], "none, easy"),
        (["--gpus", "2", "--estimates", "gut"], "predicted, exact, none"),
        (["--gpus", "1"], "asks for 2 cuda.device"),
        (["--gpus", "3", "--gpus-each", "2"], "do not make whole nodes"),
        (["--gpus", "2", "--from-s", "99"], "no job was submitted"),
    ],
)
def test_invalid_simulation_options_are_refused_with_the_reason(trace: Path, options: list[str], message: str) -> None:
    outcome = CliRunner().invoke(main, ["simulate", str(trace), *options])
    assert outcome.exit_code == 2
    assert message in outcome.stderr


def test_a_missing_trace_file_is_reported(tmp_path: Path) -> None:
    outcome = CliRunner().invoke(main, ["simulate", str(tmp_path / "none.csv"), "--gpus", "2"])
    assert outcome.exit_code == 2
    assert "cannot be read" in outcome.stderr
