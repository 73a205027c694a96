"""Files: nodes, columns of other logs, saved traces, plots, policies."""

import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from aliquot.cli import main
from aliquot.cli.simulation.source import read_nodes
from aliquot.cli.simulation.trace_saving import save_jobs
from aliquot.cli.trace_files import read_jobs
from aliquot.core.simulation.trace import SECOND_US, Job
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.ids import ProjectId, SessionId, SlotName, UserId
from aliquot_schema.sessions import Priority

PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,scheduled_time,deletion_time
a,1800,1024,1,460,V100M16|V100M32,5,10,30
b,4000,2048,2,1000,,6,,9.5
c,8000,1024,0,0,,7,8,20
d,8000,1024,1,1000,,7,8,8
"""
NODES = "node,cpu_milli,memory_mib,gpus,gpu_model\nn0,64000,262144,2,V100M16\nn1,96000,393216,0,\n"


@pytest.fixture
def pods(tmp_path: Path) -> Path:
    path = tmp_path / "pods.csv"
    path.write_text(PODS)
    return path


@pytest.fixture
def nodes(tmp_path: Path) -> Path:
    path = tmp_path / "nodes.csv"
    path.write_text(NODES)
    return path


def test_columns_of_cluster_logs_are_read(pods: Path) -> None:
    part, whole, host = read_jobs(pods)
    assert dict(part.request) == {"cpu": 2, "mem": 2**30, "cuda.shares": 460}
    assert (part.models, part.submit_us, part.duration_ms) == (("V100M16", "V100M32"), 5 * SECOND_US, 20_000)
    assert dict(whole.request) == {"cpu": 4, "mem": 2**31, "cuda.device": 2}
    assert whole.duration_ms == 3500
    assert dict(host.request) == {"cpu": 8, "mem": 2**30}


def test_nodes_become_agents(nodes: Path) -> None:
    first, second = read_nodes(nodes)
    assert {device.model for device in first.layout.devices.values()} == {"V100M16", ""}
    assert [len(agent.layout.devices) for agent in (first, second)] == [4, 2]
    assert first.layout.slots[SlotName("cpu")].budgets == (64,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("node,gpus\nn0,2\nn0,2\n", "row 2: n0 appears twice"),
        ("node,gpus\nn0,-2\n", "row 1: ValueError: gpus: -2 is negative"),
        ("gpus\n2\n", "row 1: KeyError: 'node'"),
        ("node,gpus\n", "no node with GPUs or cores"),
    ],
)
def test_an_invalid_node_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "nodes.csv"
    path.write_text(text)
    with pytest.raises(InvalidRequest) as refusal:
        read_nodes(path)
    assert message in refusal.value.message


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_saved_trace_is_read_as_it_was(tmp_path: Path, suffix: str) -> None:
    jobs = (
        Job(
            id=SessionId("00000000"),
            user=UserId("ann"),
            project=ProjectId("lab"),
            submit_us=1_795_272_780_738_005,
            duration_ms=1234,
            request=((SlotName("cpu"), 3), (SlotName("mem"), 1000), (SlotName("rocm.shares"), 125)),
            cluster_size=3,
            limit_ms=5000,
            priority=Priority.HIGH,
            preemptible=True,
            gpu_memory_bytes=8 * 10**9,
            models=("MI300X", "MI 250"),
            program="train.py",
        ),
    )
    save_jobs(jobs, tmp_path / f"jobs{suffix}")
    assert read_jobs(tmp_path / f"jobs{suffix}") == jobs


def test_the_command_simulates_a_log_on_nodes_and_plots_the_result(pods: Path, nodes: Path, tmp_path: Path) -> None:
    plot, saved = tmp_path / "runs.svg", tmp_path / "saved.csv"
    options = ["--nodes", str(nodes), "--placement", "pack", "--placement", "best_fit", "--references"]
    outcome = CliRunner().invoke(main, ["simulate", str(pods), *options, "--plot", str(plot), "--save", str(saved)])
    assert outcome.exit_code == 0, outcome.output
    for label in ("FCFS", "EASY", "SJF, exact estimates", "fair_share pack", "fair_share best_fit"):
        assert label in outcome.output
    assert ElementTree.parse(plot).getroot().tag.endswith("svg")
    assert len(read_jobs(saved)) == 3


def test_a_policy_file_gives_a_table_row(pods: Path, nodes: Path, tmp_path: Path) -> None:
    path = tmp_path / "gentle.yaml"
    path.write_text("order: sjf\nweights:\n  sjf-age-pct: 50\n")
    options = ["simulate", str(pods), "--nodes", str(nodes), "--policy-file", str(path)]
    outcome = CliRunner().invoke(main, options)
    assert outcome.exit_code == 0, outcome.output
    assert "gentle" in outcome.output
    path.write_text("order: sjf\nweight: 3\n")
    outcome = CliRunner().invoke(main, options)
    assert outcome.exit_code == 2
    assert "gentle.yaml:2" in outcome.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--gpus", "2", "--plot", "runs.txt"], ".png or .svg"),
        (["--gpus", "2", "--save", "jobs.txt"], ".csv or .parquet"),
        ([], "give a cluster"),
        (["--gpus", "2", "--nodes", "x.csv"], "exclude each other"),
        (["--gpus", "2", "--server", "http://127.0.0.1:9"], "give a trace file, or --server"),
        (["--gpus-each", "2", "--nodes", "x.csv"], "--gpus-each needs --gpus"),
        (["--nodes", "x.csv"], "cannot be read"),
        (["--gpus", "1"], "2 cuda.device"),
    ],
)
def test_conflicting_options_are_refused_with_the_reason(pods: Path, options: list[str], message: str) -> None:
    outcome = CliRunner().invoke(main, ["simulate", str(pods), *options])
    assert outcome.exit_code == 2
    assert message in outcome.stderr


def test_jobs_that_do_not_fit_are_left_out_when_asked(pods: Path) -> None:
    outcome = CliRunner().invoke(main, ["simulate", str(pods), "--gpus", "1", "--skip-unfitting"])
    assert outcome.exit_code == 0, outcome.output
    assert "left out 1 jobs" in outcome.stderr


def test_plots_without_their_library_say_what_to_install(pods: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    outcome = CliRunner().invoke(main, ["simulate", str(pods), "--gpus", "2", "--plot", "runs.svg"])
    assert outcome.exit_code == 2
    assert "pip install matplotlib" in outcome.stderr
