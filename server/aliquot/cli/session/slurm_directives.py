"""The common `#SBATCH` directives, as options of `aliquot session create`.

Source: https://slurm.schedmd.com/sbatch.html, "OPTIONS".
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from math import ceil
from typing import Final, NamedTuple

from aliquot.cli.session.slurm_notation import array_words, memory_bytes, seconds

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
"""Those that stand without a value, or with one after `=` only."""
SAID_ALIKE: Final[Mapping[str, Callable[[str], list[str]]]] = {
    "job-name": lambda value: ["--name", value],
    "account": lambda value: ["--project", value],
    "partition": lambda value: ["--pool", value],
    "chdir": lambda value: ["--chdir", value],
    "time": lambda value: ["--time-limit", f"{seconds(value)}s"],
    "array": array_words,
    "hold": lambda _: ["--hold"],
    "requeue": lambda _: ["--retries", "1"],
}
"""What each of these becomes, as options of ours."""
CONDITIONS: Final = {"afterok": "--after", "afterany": "--after-any", "afternotok": "--after-failed"}
KEPT: Final = {
    "output": "output is kept by the server: `aliquot session logs`",
    "error": "output is kept by the server: `aliquot session logs`",
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
    """What the directives say."""

    words: tuple[str, ...]
    """As options of ours."""
    notes: tuple[str, ...]
    """What is ignored, and why."""


def slurm_words(given: Iterable[str]) -> SlurmWords:
    """Translate the words of all directives.

    Raises:
        SlurmError: one has a value that Slurm would not take either.
    """
    options = dict(_pairs(list(given)))
    words = list(_shape(options)) if options else []
    notes = []
    for name, value in options.items():
        if name in SAID_ALIKE:
            words += SAID_ALIKE[name](value)
        else:
            more, ignored = _translated(name, value)
            words += more
            notes += ignored
    return SlurmWords(tuple(words), tuple(dict.fromkeys(notes)))


def _translated(name: str, value: str) -> tuple[list[str], list[str]]:
    """Options of ours, and what is ignored."""
    if name == "dependency":
        ignored = [part for part in value.split(",") if not list(_dependencies(part))]
        return list(_dependencies(value)), [f"#SBATCH --dependency={part} is ignored" for part in ignored]
    if name == "export":
        variables = [part for part in value.split(",") if "=" in part]
        rest = set(value.split(",")) - {*variables, "NONE"}
        return [word for part in variables for word in ("-e", part)], [KEPT["export"]] if rest else []
    if name in GPU_OPTIONS:
        rests = _rest(name, value)
        return [], [f"#SBATCH --{name}={part} is ignored: it is no GPU, or a second kind of GPU" for part in rests]
    if name in _SHAPE:
        return [], []
    return [], [f"#SBATCH --{name} is ignored" + (f": {KEPT[name]}" if name in KEPT else "")]


def _pairs(words: list[str]) -> Iterator[tuple[str, str]]:
    """Name and value of each option, in all the ways in which Slurm reads them."""
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
    """How many tasks, and what each of them needs. Slurm gives memory and GPUs by node, Aliquot by task."""
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
        yield from ("-r", f"cuda.device={gpus}")
    if model:
        yield from ("--model", f"*{model}*")


def _gpus(options: Mapping[str, str], *, tasks: int, on_node: int) -> tuple[str | None, int]:
    """The model and the number for each task; a number that cannot be divided is rounded up."""
    for name, among in zip(GPU_OPTIONS, (1, on_node, on_node, tasks), strict=True):
        for model, count in filter(None, map(partial(_gpus_of, name), _parts(options.get(name, "")))):
            return model, ceil(count / among)
    return None, 0


def _rest(name: str, value: str) -> list[str]:
    """What of a value is not asked for: all but the first GPUs that it names, and nothing where it says none."""
    parts = [part for part in _parts(value) if part not in ("", "none", "0", "gpu:0")]
    first = next((part for part in parts if _gpus_of(name, part)), None)
    return [part for part in parts if part != first]


def _parts(value: str) -> list[str]:
    return _SOCKETS.sub("", value).split(",")


def _gpus_of(name: str, part: str) -> tuple[str | None, int] | None:
    """The model and the number that one part of a value names: `gpu:a100:2` of --gres, `a100:2` of --gpus."""
    text = part.removeprefix("gres/")
    if name == "gres" and text.partition(":")[0] != "gpu":
        return None
    found = _GPUS.fullmatch(re.sub(r"gpu(:|$)", "", text, count=1) if text.startswith("gpu") else text)
    if not text or found is None or found["count"] == "0":
        return None
    return found["model"], int(found["count"] or 1)


def _memory(options: Mapping[str, str], *, cpus: int, gpus: int, on_node: int) -> int:
    """Bytes for each task; 0 where nothing was said, or all of a node."""
    if "mem-per-cpu" in options:
        return memory_bytes(options["mem-per-cpu"]) * cpus
    if "mem-per-gpu" in options:
        return memory_bytes(options["mem-per-gpu"]) * gpus
    return memory_bytes(options.get("mem", "0")) // on_node


def _dependencies(value: str) -> Iterator[str]:
    for part in value.split(","):
        condition, *ids = part.split(":")
        for id in ids:
            if condition in CONDITIONS:
                yield from (CONDITIONS[condition], id)


def _count(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name, "").partition("-")[0]
    return int(text) if text.isdecimal() and int(text) else None
