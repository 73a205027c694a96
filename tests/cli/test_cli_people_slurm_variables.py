"""The Slurm variables in the shell of a job."""

import subprocess

import pytest

from aliquot.cli.session.slurm import known_at_submission, with_slurm_variables, without_slurm_variables
from aliquot.client.generated.inputs import CommandInput, CreateSessionInput, SlotAmountInput

JOB = {
    "PATH": "/usr/bin:/bin",
    "ALIQUOT_SESSION_ID": "ses_1",
    "ALIQUOT_KERNEL_ID": "ses_1.1.0",
    "ALIQUOT_AGENT_ID": "n1",
}
GANG = {"RANK": "5", "WORLD_SIZE": "6", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4", "NODE_RANK": "1",
        "ALIQUOT_NODES": "2"}  # fmt: skip


def _variables(environment: dict[str, str]) -> dict[str, str]:
    done = subprocess.run(with_slurm_variables(("env",)), env=environment, capture_output=True, text=True, check=True)
    pairs = (line.partition("=") for line in done.stdout.splitlines())
    return {name: value for name, _, value in pairs if name.startswith("SLURM") or name == "attempt"}


def test_a_single_task_has_rank_0_of_1() -> None:
    found = _variables(JOB)
    assert found["SLURM_JOB_ID"] == found["SLURM_JOBID"] == "ses_1"
    assert (found["SLURM_PROCID"], found["SLURM_NTASKS"], found["SLURM_NNODES"]) == ("0", "1", "1")
    assert not {"SLURM_ARRAY_TASK_ID", "SLURM_RESTART_COUNT", "attempt"} & found.keys()


def test_a_gang_has_slurm_rank_and_node_variables() -> None:
    found = _variables(JOB | GANG)
    names = ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_NTASKS", "SLURM_JOB_NUM_NODES")
    assert [found[name] for name in names] == ["5", "1", "1", "6", "2"]


@pytest.mark.parametrize("local", ["5", "1"])
def test_an_unevenly_placed_gang_has_the_right_number_of_nodes(local: str) -> None:
    """Five tasks on one node, one on another: for the latter, 6 / 1 would give six nodes."""
    found = _variables(JOB | GANG | {"LOCAL_WORLD_SIZE": local})
    assert (found["SLURM_NNODES"], found["SLURM_JOB_NUM_NODES"]) == ("2", "2")


def test_array_tasks_and_retries_have_slurm_variables() -> None:
    array = {"ALIQUOT_ARRAY_ID": "ses_1", "ALIQUOT_ARRAY_INDEX": "7", "ALIQUOT_KERNEL_ID": "ses_1_7.3.0"}
    found = _variables(JOB | array)
    names = ("SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_RESTART_COUNT")
    assert [found[name] for name in names] == ["ses_1", "7", "2"]


@pytest.mark.parametrize("code", [0, 3])
def test_the_command_is_run_unchanged_with_slurm_variables(code: int) -> None:
    argv = with_slurm_variables(("sh", "-c", 'printf "%s|" "$@"; exit ' + str(code), "sh", "a b", "$x"))
    done = subprocess.run(argv, env=JOB, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (code, "a b|$x|")


def test_slurm_variables_known_at_submission() -> None:
    wanted = CreateSessionInput(
        command=CommandInput(argv=["true"]),
        slots=[SlotAmountInput(slot="cpu", amount="4"), SlotAmountInput(slot="cuda.device", amount="2")],
        name="train",
        array="3-5,9",
    )
    assert known_at_submission(wanted, folder="/home/anna") == {
        "SLURM_SUBMIT_DIR": "/home/anna",
        "SLURM_JOB_NAME": "train",
        "SLURM_CPUS_PER_TASK": "4",
        "SLURM_GPUS_PER_TASK": "2",
        "SLURM_ARRAY_TASK_COUNT": "4",
        "SLURM_ARRAY_TASK_MIN": "3",
        "SLURM_ARRAY_TASK_MAX": "9",
        "SLURM_ARRAY_TASK_STEP": "1",
    }


@pytest.mark.parametrize(("gpus", "known"), [("2", "2"), ("0.5", None)])
def test_slurm_gpus_per_task_is_set_only_for_whole_gpus(gpus: str, known: str | None) -> None:
    slots = [SlotAmountInput(slot="gpu", amount=gpus)]
    wanted = CreateSessionInput(command=CommandInput(argv=["true"]), slots=slots)
    assert known_at_submission(wanted, folder="/").get("SLURM_GPUS_PER_TASK") == known


@pytest.mark.parametrize(
    ("array", "step"),
    [("7", "1"), ("0-15", "1"), ("0,4,8,12", "4"), ("1,3,7", "1"), ("0-1,4-5", "1"), ("1,9", "8"), ("9,1,5", "4")],
)
def test_slurm_array_step(array: str, step: str) -> None:
    wanted = CreateSessionInput(command=CommandInput(argv=["true"]), slots=[], array=array)
    assert known_at_submission(wanted, folder="/")["SLURM_ARRAY_TASK_STEP"] == step


WHOLE = {"CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b", "ALIQUOT_SLOTS": '{"cpu": "1", "cuda.device": "2"}'}
ROCM = {"ROCR_VISIBLE_DEVICES": "GPU-c,GPU-d", "ALIQUOT_SLOTS": '{"rocm.device": "2"}'}
SHARES = WHOLE | {"ALIQUOT_SLOTS": '{"cuda.shares": "1.20"}'}
APART = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1", "RANK": "1", "NODE_RANK": "1"}
TOGETHER = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "RANK": "1"}
OF_GPUS = ("SLURM_GPUS", "SLURM_GPUS_ON_NODE", "SLURM_JOB_GPUS")


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"CUDA_VISIBLE_DEVICES": "", "ALIQUOT_SLOTS": '{"cpu": "1"}'}, (None, None, None)),
        ({}, (None, None, None)),
        (WHOLE, ("2", "2", "GPU-a,GPU-b")),
        (ROCM, ("2", "2", "GPU-c,GPU-d")),
        (WHOLE | APART, ("4", "2", "GPU-a,GPU-b")),
        (WHOLE | TOGETHER, ("4", "4", None)),
        (WHOLE | GANG, ("12", "8", None)),
        (SHARES, (None, "2", "GPU-a,GPU-b")),
        (SHARES | APART, (None, "2", "GPU-a,GPU-b")),
        (SHARES | TOGETHER, (None, None, None)),
    ],
)
def test_slurm_gpu_variables_are_set_when_known(more: dict[str, str], expected: tuple[str | None, ...]) -> None:
    found = _variables(JOB | more)
    assert tuple(found.get(name) for name in OF_GPUS) == expected


@pytest.mark.parametrize(
    ("more", "mebibytes", "tasks"),
    [
        ({}, None, "1"),
        ({"ALIQUOT_MEMORY_BYTES": "0"}, None, "1"),
        ({"ALIQUOT_MEMORY_BYTES": str(64 << 30)}, "65536", "1"),
        ({"ALIQUOT_MEMORY_BYTES": str(1 << 30)} | APART, "1024", None),
        ({"ALIQUOT_MEMORY_BYTES": str(1 << 30)} | TOGETHER, "2048", "2"),
    ],
)
def test_slurm_memory_and_tasks_per_node(more: dict[str, str], mebibytes: str | None, tasks: str | None) -> None:
    found = _variables(JOB | more)
    assert (found.get("SLURM_MEM_PER_NODE"), found.get("SLURM_TASKS_PER_NODE")) == (mebibytes, tasks)


def test_the_command_is_shown_without_the_variables_of_any_release() -> None:
    shell, flag, prelude, name, *argv = with_slurm_variables(("sh", "-c", "true"))
    assert without_slurm_variables((shell, flag, f"export SLURM_OLD=1\n{prelude}", name, *argv)) == tuple(argv)
    assert without_slurm_variables(("/bin/sh", "-c", "true")) == ("/bin/sh", "-c", "true")
