"""The variables that scripts for Slurm look for, set in the job from those that Aliquot sets.

Their meaning: https://slurm.schedmd.com/sbatch.html, "OUTPUT ENVIRONMENT VARIABLES". Those that only Slurm could know,
like the list of nodes, are left out.
"""

from typing import TYPE_CHECKING, Final

from aliquot.cli.connection.asking import usage

if TYPE_CHECKING:
    from aliquot.client.generated.inputs import CreateSessionInput

PRELUDE: Final = """\
export SLURM_JOB_ID="$ALIQUOT_SESSION_ID" SLURM_JOBID="$ALIQUOT_SESSION_ID" SLURM_CLUSTER_NAME=aliquot
export SLURM_PROCID="${RANK:-0}" SLURM_LOCALID="${LOCAL_RANK:-0}" SLURM_NODEID="${NODE_RANK:-0}"
export SLURM_NTASKS="${WORLD_SIZE:-1}" SLURM_NPROCS="${WORLD_SIZE:-1}" SLURMD_NODENAME="$ALIQUOT_AGENT_ID"
SLURM_NNODES=$(( (${WORLD_SIZE:-1} + ${LOCAL_WORLD_SIZE:-1} - 1) / ${LOCAL_WORLD_SIZE:-1} ))
export SLURM_NNODES SLURM_JOB_NUM_NODES="$SLURM_NNODES" SLURM_NTASKS_PER_NODE="${LOCAL_WORLD_SIZE:-1}"
attempt=${ALIQUOT_KERNEL_ID%.*}
SLURM_RESTART_COUNT=$(( ${attempt##*.} - 1 ))
if [ "$SLURM_RESTART_COUNT" -gt 0 ]; then export SLURM_RESTART_COUNT; else unset SLURM_RESTART_COUNT; fi
if [ -n "$ALIQUOT_ARRAY_ID" ]; then
  export SLURM_ARRAY_JOB_ID="$ALIQUOT_ARRAY_ID" SLURM_ARRAY_TASK_ID="$ALIQUOT_ARRAY_INDEX"
fi
if [ "${WORLD_SIZE:-1}" = "${LOCAL_WORLD_SIZE:-1}" ]; then export SLURM_TASKS_PER_NODE="${WORLD_SIZE:-1}"; fi
if [ "${ALIQUOT_MEMORY_BYTES:-0}" -gt 0 ]; then
  export SLURM_MEM_PER_NODE="$(( ALIQUOT_MEMORY_BYTES * ${LOCAL_WORLD_SIZE:-1} / 1048576 ))"
fi
if [ -n "$CUDA_VISIBLE_DEVICES" ]; then
  SLURM_GPUS_ON_NODE=$(IFS=,; set -- $CUDA_VISIBLE_DEVICES; echo "$#")
  case "${LOCAL_WORLD_SIZE:-1} $ALIQUOT_SLOTS" in
    *'"cuda.device"'*)
      export SLURM_GPUS="$(( SLURM_GPUS_ON_NODE * ${WORLD_SIZE:-1} ))"
      export SLURM_GPUS_ON_NODE="$(( SLURM_GPUS_ON_NODE * ${LOCAL_WORLD_SIZE:-1} ))" ;;
    "1 "*) export SLURM_GPUS_ON_NODE ;;
    *) unset SLURM_GPUS_ON_NODE ;;
  esac
  if [ "${LOCAL_WORLD_SIZE:-1}" = 1 ]; then export SLURM_JOB_GPUS="$CUDA_VISIBLE_DEVICES"; fi
fi
unset attempt
exec "$@"
"""
"""What a node has for tasks beside this one is known where it is alone there, or where all have as much: the same
memory, and whole GPUs. Of shares two tasks may have parts of the same GPU."""

_NAME: Final = "slurm-variables"
_BEFORE: Final = ("/bin/sh", "-c", PRELUDE, _NAME)


def with_slurm_variables(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The command, run with the variables that are known in the job alone."""
    return (*_BEFORE, *argv)


def without_slurm_variables(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The command that was given, whether or not the variables were put before it, by this release or another."""
    return argv[len(_BEFORE) :] if argv[:2] == _BEFORE[:2] and argv[3:4] == (_NAME,) else argv


def known_at_submission(wanted: "CreateSessionInput", *, folder: str) -> dict[str, str]:
    """Those that are known when a session is submitted, from this folder."""
    slots = {one.slot: one.amount for one in wanted.slots}
    found = {
        "SLURM_SUBMIT_DIR": folder,
        "SLURM_JOB_NAME": wanted.name,
        "SLURM_JOB_ACCOUNT": wanted.project,
        "SLURM_JOB_PARTITION": wanted.pool,
        "SLURM_CPUS_PER_TASK": slots.get("cpu"),
        "SLURM_GPUS_PER_TASK": slots.get("cuda.device"),
        **_of_array(wanted.array),
    }
    return {name: value for name, value in found.items() if value is not None}


def _of_array(array: str | None) -> dict[str, str]:
    from aliquot_schema.errors import InvalidRequest
    from aliquot_schema.intervals import Intervals

    if array is None:
        return {}
    try:
        spans = Intervals.parse(array)
    except InvalidRequest as error:
        usage(error.message)
    return {
        "SLURM_ARRAY_TASK_COUNT": str(len(spans)),
        "SLURM_ARRAY_TASK_MIN": str(spans.spans[0][0]),
        "SLURM_ARRAY_TASK_MAX": str(spans.spans[-1][1]),
        "SLURM_ARRAY_TASK_STEP": str(_step(spans.spans)),
    }


def _step(spans: tuple[tuple[int, int], ...]) -> int:
    """From each index to the next, as Slurm has it: 1 where they are not all equally far apart."""
    from itertools import pairwise

    steps = {following[0] - one[0] for one, following in pairwise(spans)}
    return steps.pop() if len(steps) == 1 and all(first == last for first, last in spans) else 1
