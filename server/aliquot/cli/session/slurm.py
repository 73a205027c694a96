"""Slurm scripts: `#SBATCH` directives as options of `aliquot session create`, and Slurm's variables in the job.

Source: https://slurm.schedmd.com/sbatch.html, "OPTIONS" and "OUTPUT ENVIRONMENT VARIABLES". Variables that only Slurm
could fill, like the list of nodes, are left out.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from aliquot.cli.connection.server import usage
from aliquot.cli.session.names import SAME_NAME

if TYPE_CHECKING:
    from aliquot.client.generated.inputs import CreateSessionInput


_TIME: Final = re.compile(r"(?:(?P<days>\d+)-)?(?P<rest>\d+(?::\d+){0,2})")
_SIZE: Final = re.compile(r"(?P<number>\d+)(?P<unit>[KMGT]?)B?", re.IGNORECASE)
_UNITS: Final = {"": 2**20, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_ARRAY: Final = re.compile(r"(?P<indices>[\d,:-]+)(?:%(?P<parallel>\d+))?")
_SIGNAL: Final = re.compile(r"(?:(?P<to>[RB]+):)?(?P<signal>\w+)(?:@(?P<before>\d{1,5}))?")
_SPAN: Final = re.compile(r"(?P<first>\d{1,15})-(?P<last>\d{1,15}):(?P<step>[1-9]\d{0,14})")


class SlurmError(ValueError):
    """A directive that Slurm would reject, too."""


def seconds(text: str) -> int:
    """Read `minutes`, `minutes:seconds`, `hours:minutes:seconds` or `days-hours[:minutes[:seconds]]`.

    Raises:
        SlurmError: it is none of these.
    """
    found = _TIME.fullmatch(text)
    if found is None:
        raise SlurmError(f"#SBATCH --time={text}: write it like 30, 2:00:00 or 1-12")
    parts = [int(part) for part in found["rest"].split(":")]
    if found["days"] is not None:
        hours, minutes, rest = (*parts, 0, 0)[:3]
        return int(found["days"]) * 86_400 + hours * 3600 + minutes * 60 + rest
    hours, minutes, rest = {1: (0, *parts, 0), 2: (0, *parts), 3: tuple(parts)}[len(parts)]
    return hours * 3600 + minutes * 60 + rest


def time_words(text: str) -> list[str]:
    """Read a time limit as options of `aliquot session create`. As in Slurm, zero is no limit.

    Raises:
        SlurmError: it is not a time.
    """
    limit_s = 0 if text.upper() in NO_LIMIT else seconds(text)
    return ["--time-limit", f"{limit_s}s"] if limit_s else []


def memory_bytes(text: str) -> int:
    """Read a size in bytes; MiB without a unit.

    Raises:
        SlurmError: it is not a size.
    """
    found = _SIZE.fullmatch(text)
    if found is None:
        raise SlurmError(f"#SBATCH --mem={text}: write it like 4000M or 8G")
    return int(found["number"]) * _UNITS[found["unit"].upper()]


def signal_words(text: str) -> tuple[list[str], list[str]]:
    """Read a signal before the time limit as options of `aliquot session create`, and messages. As in Slurm, it is sent
    60 seconds before without a time.

    Raises:
        SlurmError: it is not a signal with a time.
    """
    found = _SIGNAL.fullmatch(text)
    if found is None:
        raise SlurmError(f"#SBATCH --signal={text}: write it like USR1@120 or B:USR1@120")
    note = "#SBATCH --signal: the script itself gets it, as with B:, so trap it there, or start the program with `exec`"
    notes = [] if "B" in (found["to"] or "") else [note]
    return ["--checkpoint-signal", found["signal"], "--grace", f"{int(found['before'] or 60)}s"], notes


def array_words(text: str) -> list[str]:
    """Read an array as options of `aliquot session create`.

    Raises:
        SlurmError: it is not an array.
    """
    indices, limit = array_parts(text, option="#SBATCH --array=")
    return ["--array", indices, *([] if limit is None else ["--max-parallel", str(limit)])]


def array_parts(text: str, *, option: str) -> tuple[str, int | None]:
    """Read `0-15`, `1,3,5-7` or `0-15:4`, each with an optional `%LIMIT`: the indices without steps, and the limit.

    Raises:
        SlurmError: it is none of these; the message begins with the option.
    """
    found = _ARRAY.fullmatch(text)
    if found is None:
        raise SlurmError(f"{option}{text}: write it like 0-15, 1,3,5 or 0-15%4")
    indices = ",".join(_stepped(part) for part in found["indices"].split(","))
    return indices, None if found["parallel"] is None else int(found["parallel"])


def array_fields(array: str | None, max_parallel: int | None) -> dict[str, Any]:
    """Fields of a request; an array may have steps and a limit as in Slurm."""
    if array is None or not {":", "%"} & set(array):
        return {"array": array, "max_parallel": max_parallel}
    try:
        indices, limit = array_parts(array, option="--array ")
    except SlurmError as error:
        usage(str(error))
    if limit is not None and max_parallel not in (None, limit):
        usage(f"--array {array} and --max-parallel {max_parallel}: give one limit")
    return {"array": indices, "max_parallel": max_parallel if limit is None else limit}


def _stepped(part: str) -> str:
    found = _SPAN.fullmatch(part)
    if found is None:
        return part
    from aliquot_schema.sessions import ARRAY_TASKS_MAX

    indices = range(int(found["first"]), int(found["last"]) + 1, int(found["step"]))
    if len(indices) > ARRAY_TASKS_MAX:
        raise SlurmError(f"{part}: an array has at most {ARRAY_TASKS_MAX:,} tasks")
    return ",".join(map(str, indices))


SHORT: Final = {
    "A": "account", "a": "array", "C": "constraint", "c": "cpus-per-task", "D": "chdir", "d": "dependency",
    "e": "error", "G": "gpus", "H": "hold", "i": "input", "J": "job-name", "L": "licenses", "M": "clusters",
    "N": "nodes", "n": "ntasks", "o": "output", "p": "partition", "q": "qos", "t": "time", "w": "nodelist",
    "x": "exclude",
}  # fmt: skip
FLAGS: Final = frozenset(
    {
        "hold",
        "requeue",
        "no-requeue",
        "exclusive",
        "overcommit",
        "oversubscribe",
        "parsable",
        "wait",
        "quiet",
        "verbose",
    }
)
"""Options without a value, or with one only after `=`."""
NO_LIMIT: Final = frozenset({"UNLIMITED", "INFINITE"})
EQUIVALENTS: Final[Mapping[str, Callable[[str], list[str]]]] = {
    "job-name": lambda value: ["--name", value],
    "account": lambda value: ["--project", value],
    "partition": lambda value: ["--pool", value],
    "chdir": lambda value: ["--chdir", value],
    "time": time_words,
    "array": array_words,
    "hold": lambda _: ["--hold"],
    "requeue": lambda _: ["--retries", "1"],
}
"""By option of Slurm, the equivalent options of `aliquot session create`."""
CONDITIONS: Final = {"afterok": "--after", "afterany": "--after-any", "afternotok": "--after-failed"}
ADVICE: Final = {
    "output": "the server stores the output: `aliquot session logs`",
    "error": "the server stores the output: `aliquot session logs`",
    "export": "the variables of your shell are not passed on: give them with -e NAME=VALUE",
}
_SHAPE: Final = frozenset(
    {"ntasks", "nodes", "ntasks-per-node", "cpus-per-task", "mem", "mem-per-cpu", "mem-per-gpu", "gpus",
     "gpus-per-node", "gpus-per-task", "gres", "cpus-per-gpu"}
)  # fmt: skip
GPU_OPTIONS: Final = ("gpus-per-task", "gpus-per-node", "gres", "gpus")
_GPUS: Final = re.compile(r"(?:(?P<model>[A-Za-z][\w.-]*)(?::|$))?(?P<count>\d+)?")
_SOCKETS: Final = re.compile(r"\(S:[^)]*\)")


class SlurmWords(NamedTuple):
    """The translation of all directives."""

    words: tuple[str, ...]
    """Options of `aliquot session create`."""
    notes: tuple[str, ...]
    """Messages about ignored directives."""


def slurm_words(given: Iterable[str]) -> SlurmWords:
    """Translate the words of all directives.

    Raises:
        SlurmError: one has a value that Slurm would reject, too.
    """
    options = dict(_pairs(list(given)))
    words = list(_shape(options)) if options else []
    notes = []
    for name, value in options.items():
        if name in EQUIVALENTS:
            words += EQUIVALENTS[name](value)
        else:
            more, ignored = _translated(name, value)
            words += more
            notes += ignored
    return SlurmWords(tuple(words), tuple(dict.fromkeys(notes)))


def _translated(name: str, value: str) -> tuple[list[str], list[str]]:
    """Options of `aliquot session create`, and messages about what is ignored."""
    if name == "dependency":
        ignored = [part for part in value.split(",") if not list(_dependencies(part))]
        return list(_dependencies(value)), [f"#SBATCH --dependency={part} is ignored" for part in ignored]
    if name == "signal":
        return signal_words(value)
    if name == "export":
        variables = [part for part in value.split(",") if "=" in part]
        rest = set(value.split(",")) - {*variables, "NONE"}
        return [word for part in variables for word in ("-e", part)], [ADVICE["export"]] if rest else []
    if name in GPU_OPTIONS:
        ignored = _ignored_gpus(name, value)
        return [], [f"#SBATCH --{name}={part} is ignored: not a GPU, or a second type of GPU" for part in ignored]
    if name in _SHAPE:
        return [], []
    return [], [f"#SBATCH --{name} is ignored" + (f": {ADVICE[name]}" if name in ADVICE else "")]


def _pairs(words: list[str]) -> Iterator[tuple[str, str]]:
    """Name and value of each option, in all notations of Slurm."""
    while words:
        word = words.pop(0)
        if word.startswith("--"):
            name, has_value, value = word[2:].partition("=")
        elif word.startswith("-") and len(word) > 1:
            name, has_value, value = SHORT.get(word[1], word[1]), word[2:], word[2:].removeprefix("=")
        else:
            continue
        if not has_value and name not in FLAGS and words and not re.match(r"-[A-Za-z-]", words[0]):
            value = words.pop(0)
        yield name, value


def _shape(options: Mapping[str, str]) -> Iterator[str]:
    """The number of tasks and the resources of each. Slurm counts memory and GPUs per node, Aliquot per task."""
    nodes = _count(options, "nodes")
    per_node = _count(options, "ntasks-per-node")
    tasks = _count(options, "ntasks") or (nodes or 1) * (per_node or 1)
    on_node = per_node or ceil(tasks / (nodes or 1))
    cpus = _count(options, "cpus-per-task")
    model, gpus = _gpus(options, tasks=tasks, on_node=on_node)
    cpus = cpus or (_count(options, "cpus-per-gpu") or 0) * gpus or 1
    if tasks > 1:
        yield from ("--cluster-size", str(tasks))
    yield from ("-r", f"cpu={cpus}")
    if memory := _memory(options, cpus=cpus, gpus=gpus, on_node=on_node):
        yield from ("-r", f"mem={memory}")
    if gpus:
        yield from ("-r", f"gpu={gpus}")
    if model:
        yield from ("--model", f"*{model}*")


def _gpus(options: Mapping[str, str], *, tasks: int, on_node: int) -> tuple[str | None, int]:
    """The model, and the number per task, rounded up."""
    for name, among in zip(GPU_OPTIONS, (1, on_node, on_node, tasks), strict=True):
        for model, count in filter(None, map(partial(_gpus_of, name), _parts(options.get(name, "")))):
            return model, ceil(count / among)
    return None, 0


def _ignored_gpus(name: str, value: str) -> list[str]:
    """The parts of a value that are not requested: all but the first GPUs that it names; none where it is zero."""
    parts = [part for part in _parts(value) if part not in ("", "none", "0", "gpu:0")]
    first = next((part for part in parts if _gpus_of(name, part)), None)
    return [part for part in parts if part != first]


def _parts(value: str) -> list[str]:
    return _SOCKETS.sub("", value).split(",")


def _gpus_of(name: str, part: str) -> tuple[str | None, int] | None:
    """The model and the number in one part of a value: `gpu:a100:2` of --gres, `a100:2` of --gpus."""
    text = part.removeprefix("gres/")
    if name == "gres" and text.partition(":")[0] != "gpu":
        return None
    found = _GPUS.fullmatch(re.sub(r"gpu(:|$)", "", text, count=1) if text.startswith("gpu") else text)
    if not text or found is None or found["count"] == "0":
        return None
    return found["model"], int(found["count"] or 1)


def _memory(options: Mapping[str, str], *, cpus: int, gpus: int, on_node: int) -> int:
    """Bytes per task; 0 where none are given, or all of a node."""
    if "mem-per-cpu" in options:
        return memory_bytes(options["mem-per-cpu"]) * cpus
    if "mem-per-gpu" in options:
        return memory_bytes(options["mem-per-gpu"]) * gpus
    return memory_bytes(options.get("mem", "0")) // on_node


def _dependencies(value: str) -> Iterator[str]:
    if "?" in value:
        raise SlurmError(f"#SBATCH --dependency={value}: a session waits for all that it names; `?` is not supported")
    for part in value.split(","):
        condition, *ids = part.split(":")
        if part == "singleton":
            yield from ("--after-any", SAME_NAME)
        for id in ids:
            if condition in CONDITIONS:
                yield from (CONDITIONS[condition], id)


def _count(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name, "").partition("-")[0]
    return int(text) if text.isdecimal() and int(text) else None


PRELUDE: Final = """\
export SLURM_JOB_ID="$ALIQUOT_SESSION_ID" SLURM_JOBID="$ALIQUOT_SESSION_ID" SLURM_CLUSTER_NAME=aliquot
export SLURM_PROCID="${RANK:-0}" SLURM_LOCALID="${LOCAL_RANK:-0}" SLURM_NODEID="${NODE_RANK:-0}"
export SLURM_NTASKS="${WORLD_SIZE:-1}" SLURM_NPROCS="${WORLD_SIZE:-1}" SLURMD_NODENAME="$ALIQUOT_AGENT_ID"
export SLURM_NNODES="${ALIQUOT_NODES:-1}"
export SLURM_JOB_NUM_NODES="$SLURM_NNODES" SLURM_NTASKS_PER_NODE="${LOCAL_WORLD_SIZE:-1}"
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
visible=${CUDA_VISIBLE_DEVICES:-$ROCR_VISIBLE_DEVICES}
if [ -n "$visible" ]; then
  SLURM_GPUS_ON_NODE=$(IFS=,; set -- $visible; echo "$#")
  case "${LOCAL_WORLD_SIZE:-1} $ALIQUOT_SLOTS" in
    *'"cuda.device"'*|*'"rocm.device"'*)
      export SLURM_GPUS="$(( SLURM_GPUS_ON_NODE * ${WORLD_SIZE:-1} ))"
      export SLURM_GPUS_ON_NODE="$(( SLURM_GPUS_ON_NODE * ${LOCAL_WORLD_SIZE:-1} ))" ;;
    "1 "*) export SLURM_GPUS_ON_NODE ;;
    *) unset SLURM_GPUS_ON_NODE ;;
  esac
  if [ "${LOCAL_WORLD_SIZE:-1}" = 1 ]; then export SLURM_JOB_GPUS="$visible"; fi
fi
unset attempt visible
exec "$@"
"""
"""Totals per node are set only where they are known: on the only node of a gang, and for amounts that are the same in
every task, which are memory and whole GPUs. Two tasks may have shares of the same GPU."""

_NAME: Final = "slurm-variables"
_BEFORE: Final = ("/bin/sh", "-c", PRELUDE, _NAME)


def with_slurm_variables(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The command, behind a prelude that sets the variables known only in the job."""
    return (*_BEFORE, *argv)


def without_slurm_variables(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The command without the prelude of this release or another one, if it has one."""
    return argv[len(_BEFORE) :] if argv[:2] == _BEFORE[:2] and argv[3:4] == (_NAME,) else argv


def known_at_submission(wanted: "CreateSessionInput", *, folder: str) -> dict[str, str]:
    """The variables that are known when a session is submitted from a folder."""
    slots = {one.slot: one.amount for one in wanted.slots}
    gpus = next((slots[slot] for slot in ("cuda.device", "rocm.device", "gpu") if slots.get(slot)), "")
    found = {
        "SLURM_SUBMIT_DIR": folder,
        "SLURM_JOB_NAME": wanted.name,
        "SLURM_JOB_ACCOUNT": wanted.project,
        "SLURM_JOB_PARTITION": wanted.pool,
        "SLURM_CPUS_PER_TASK": slots.get("cpu"),
        "SLURM_GPUS_PER_TASK": gpus if gpus.isdecimal() else None,
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
    """The distance between indices, as in Slurm: 1 where it is not the same everywhere."""
    from itertools import pairwise

    steps = {following[0] - one[0] for one, following in pairwise(spans)}
    return steps.pop() if len(steps) == 1 and all(first == last for first, last in spans) else 1
