"""The variables of Slurm, in a shell as a job has it."""

import subprocess

import pytest

from aliquot.cli.session.slurm_variables import known_at_submission, with_slurm_variables
from aliquot.client.generated.inputs import CommandInput, CreateSessionInput, SlotAmountInput

JOB = {
    "PATH": "/usr/bin:/bin",
    "ALIQUOT_SESSION_ID": "ses_1",
    "ALIQUOT_KERNEL_ID": "ses_1.1.0",
    "ALIQUOT_AGENT_ID": "n1",
}
GANG = {"RANK": "5", "WORLD_SIZE": "6", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4", "NODE_RANK": "1"}


def _variables(environment: dict[str, str]) -> dict[str, str]:
    done = subprocess.run(with_slurm_variables(("env",)), env=environment, capture_output=True, text=True, check=True)
    pairs = (line.partition("=") for line in done.stdout.splitlines())
    return {name: value for name, _, value in pairs if name.startswith("SLURM") or name == "attempt"}


def test_a_single_task_is_the_first_of_one() -> None:
    found = _variables(JOB)
    assert found["SLURM_JOB_ID"] == found["SLURM_JOBID"] == "ses_1"
    assert (found["SLURM_PROCID"], found["SLURM_NTASKS"], found["SLURM_NNODES"]) == ("0", "1", "1")
    assert not {"SLURM_ARRAY_TASK_ID", "SLURM_RESTART_COUNT", "attempt"} & found.keys()


def test_a_gang_knows_its_places() -> None:
    found = _variables(JOB | GANG)
    names = ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_NTASKS", "SLURM_JOB_NUM_NODES")
    assert [found[name] for name in names] == ["5", "1", "1", "6", "2"]


def test_a_task_of_an_array_and_a_second_try() -> None:
    array = {"ALIQUOT_ARRAY_ID": "ses_1", "ALIQUOT_ARRAY_INDEX": "7", "ALIQUOT_KERNEL_ID": "ses_1_7.3.0"}
    found = _variables(JOB | array)
    names = ("SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_RESTART_COUNT")
    assert [found[name] for name in names] == ["ses_1", "7", "2"]


@pytest.mark.parametrize("code", [0, 3])
def test_the_command_is_run_as_it_is(code: int) -> None:
    argv = with_slurm_variables(("sh", "-c", 'printf "%s|" "$@"; exit ' + str(code), "sh", "a b", "$x"))
    done = subprocess.run(argv, env=JOB, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (code, "a b|$x|")


def test_what_is_known_at_submission() -> None:
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
    }
