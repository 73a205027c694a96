"""How Slurm writes times, sizes and indices of arrays."""

import re
from typing import Final

_TIME: Final = re.compile(r"(?:(?P<days>\d+)-)?(?P<rest>\d+(?::\d+){0,2})")
_SIZE: Final = re.compile(r"(?P<number>\d+)(?P<unit>[KMGT]?)B?", re.IGNORECASE)
_UNITS: Final = {"": 2**20, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_ARRAY: Final = re.compile(r"(?P<indices>[\d,:-]+)(?:%(?P<parallel>\d+))?")
_SPAN: Final = re.compile(r"(?P<first>\d+)-(?P<last>\d+):(?P<step>[1-9]\d*)")


class SlurmError(ValueError):
    """A directive that Slurm would not take either."""


def seconds(text: str) -> int:
    """`minutes`, `minutes:seconds`, `hours:minutes:seconds`, `days-hours[:minutes[:seconds]]`.

    Raises:
        SlurmError: it is written in another way.
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


def memory_bytes(text: str) -> int:
    """A size; without a unit, in MiB.

    Raises:
        SlurmError: it is written in another way.
    """
    found = _SIZE.fullmatch(text)
    if found is None:
        raise SlurmError(f"#SBATCH --mem={text}: write it like 4000M or 8G")
    return int(found["number"]) * _UNITS[found["unit"].upper()]


def array_words(text: str) -> list[str]:
    """`0-15`, `1,3,5-7`, `0-15:4`, each with `%LIMIT`, as options of ours.

    Raises:
        SlurmError: it is written in another way.
    """
    found = _ARRAY.fullmatch(text)
    if found is None:
        raise SlurmError(f"#SBATCH --array={text}: write it like 0-15, 1,3,5 or 0-15%4")
    indices = ",".join(_stepped(part) for part in found["indices"].split(","))
    return ["--array", indices, *(["--max-parallel", found["parallel"]] if found["parallel"] else [])]


def _stepped(part: str) -> str:
    found = _SPAN.fullmatch(part)
    if found is None:
        return part
    return ",".join(map(str, range(int(found["first"]), int(found["last"]) + 1, int(found["step"]))))
