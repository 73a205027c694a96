"""GraphiQL's examples, and how its page fills them in, read from its sources."""

import re
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from aliquot.clock import SystemClock
from aliquot.service.views.terms import moment

FOLDER: Final = Path(__file__).parents[2] / "server" / "dashboard" / "src" / "graphiql"
SOURCES: Final = {path.stem: path.read_text(encoding="utf-8") for path in sorted((FOLDER / "examples").glob("*.ts"))}


def _file_name(constant: str) -> str:
    """`EXTERNAL_ALLOCATIONS` is in `externalAllocations.ts`."""
    first, *others = constant.lower().split("_")
    return first + "".join(map(str.capitalize, others))


ORDER: Final = [
    _file_name(found)
    for found in re.findall(r"^  ([A-Z_]+),$", (FOLDER / "examples.ts").read_text(encoding="utf-8"), re.M)
]
PLACES_TEXT: Final = (FOLDER / "places.ts").read_text(encoding="utf-8")
LOOKUP: Final = re.findall(r"LOOKUP = `([^`]+)`", PLACES_TEXT)[0]
PLACES: Final = dict(re.findall(r'"([^"]+)": "([^"]+)"', PLACES_TEXT.split("SUBMIT =")[0]))
HOUR_US: Final = 3_600_000_000
EXAMPLE: Final = re.compile(r'title: "([^"]+)",\s+page: "([^"]+)",\s+query: `([^`]+)`,(?:\s+variables: `([^`]+)`,)?')


class Example(NamedTuple):
    """A menu entry; `variables` is empty or JSON with placeholders in <>."""

    title: str
    page: str
    query: str
    variables: str


EXAMPLES: Final = [Example(*found) for group in ORDER for found in EXAMPLE.findall(SOURCES[group])]


def filled(variables: str, found: dict[str, Any]) -> dict[str, Any]:
    """Variables as the page fills them in from LOOKUP."""

    def value(written: re.Match[str]) -> str:
        now = SystemClock().now_us()
        moments = {
            "now": moment(now).isoformat(),
            "an hour ago": moment(now - HOUR_US).isoformat(),
            "new name": f"example-{now}",
        }
        name = written[1]
        return orjson.dumps(moments[name] if name in moments else _at(found, PLACES[name])).decode()

    given: dict[str, Any] = orjson.loads(re.sub(r'"<([^>]+)>"', value, variables) or "{}")
    return given


def _at(found: Any, path: str) -> Any:
    for step in path.split("."):
        found = found[int(step) if step.isdigit() else step]
    return found
