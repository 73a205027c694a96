"""Slurm reference: how example directives are translated, from the code that reads Slurm scripts."""

import re
from collections.abc import Iterator
from typing import Final

from aliquot.cli.session.slurm import PRELUDE, SHORT, slurm_words
from aliquot_docs.markdown import code, table, text

EXAMPLES: Final = (
    "--job-name=train",
    "--account=vision",
    "--partition=h100",
    "--chdir=/data/run",
    "--time=1-12:00:00",
    "--gpus=2",
    "--gpus-per-task=1",
    "--gres=gpu:h100:4",
    "--cpus-per-task=8",
    "--mem=64G",
    "--mem-per-cpu=4000",
    "--gpus=2 --mem-per-gpu=60G",
    "--ntasks=4",
    "--nodes=2 --ntasks-per-node=8 --gpus-per-node=8",
    "--array=0-15%4",
    "--dependency=afterok:ses_0190",
    "--dependency=singleton",
    "--signal=B:USR1@120",
    "--hold",
    "--requeue",
    "--export=SEED=1",
    "--output=out-%j.txt",
    "--constraint=ib",
    "--nodelist=gpu01",
    "--exclusive",
    "--mail-user=anna@lab.example",
)
VARIABLE: Final = re.compile(r"\bSLURM[A-Z]*_[A-Z_]+|\bSLURM_JOBID\b")
AT_SUBMISSION: Final = (
    "SLURM_SUBMIT_DIR",
    "SLURM_JOB_NAME",
    "SLURM_JOB_ACCOUNT",
    "SLURM_JOB_PARTITION",
    "SLURM_CPUS_PER_TASK",
    "SLURM_GPUS_PER_TASK",
    "SLURM_ARRAY_TASK_COUNT",
    "SLURM_ARRAY_TASK_MIN",
    "SLURM_ARRAY_TASK_MAX",
    "SLURM_ARRAY_TASK_STEP",
)
"""Variables known at submission; a test compares them with the code."""


def directives_table() -> str:
    """A row per example: the directive, and the options of `aliquot session create` it becomes."""
    return table(("`#SBATCH`", "becomes", "note"), (_row(example) for example in EXAMPLES))


def short_forms() -> str:
    """The supported short forms."""
    return ", ".join(f"{code(f'-{short}')} = {code(f'--{name}')}" for short, name in sorted(SHORT.items()))


def variables() -> list[str]:
    """The SLURM_* variables in the environment of such a job."""
    return sorted({*VARIABLE.findall(PRELUDE), *AT_SUBMISSION})


def _row(example: str) -> Iterator[str]:
    made = slurm_words(example.split())
    yield code(example)
    # Every translation has the CPU of one task, which most directives do not set.
    words = (
        " ".join(made.words).removesuffix("-r cpu=1").replace("-r cpu=1 ", "")
        if "cpus" not in example
        else " ".join(made.words)
    )
    yield code(words.strip())
    yield text(
        "; ".join(note.partition(" is ignored")[2].lstrip(": ") or "ignored with a warning" for note in made.notes)
    )
