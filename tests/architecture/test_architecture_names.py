"""Names: modules are nouns of this field, one meaning each, and every module begins with a sentence that says so."""

import ast
from collections import defaultdict
from pathlib import Path

from architecture_sources import ROOT, SCHEMA, SERVER, is_hand_written, modules, place, tree

EMPTY_WORDS = {"utils", "util", "common", "helpers", "helper", "manager", "base", "misc"}
METAPHORS = {
    "aside", "at_once", "beginning", "calm", "catching_up", "course", "door", "draft", "endings", "gate", "giving_way",
    "guard", "guards", "keeper", "leaps", "letters", "looking", "lookout", "office", "outfit", "outside", "patience",
    "patient", "place", "rendezvous_room", "resting", "room", "roster", "scribe", "serving", "sheet", "sight",
    "standing", "switchboard", "tap", "telling", "vetting", "voice",
}  # fmt: skip
"""Words that named several unrelated things, or a thing that has a usual name."""
CLASS_METAPHORS = {
    "AgentDoor", "AgentSide", "Apart", "Bearer", "Beat", "Beginning", "Begun", "Calm", "Course", "Desk", "DevicesTold",
    "Door", "Draft", "Duty", "Endings", "ForecastDesk", "Gate", "Gated", "Ground", "Guard", "Hand", "Headroom",
    "HeldBook", "HeldOpen", "HoldLog", "Judging", "KeptHistory", "KernelTold", "KeyTeller", "Lesson", "Letter", "Life",
    "Lingering", "LiveWatching", "Lookout", "MarkKeeper", "Means", "Office", "Outfit", "Outsider", "Pace", "Patience",
    "PresentTerm", "QuotaBook", "Reach", "ReadingsTold", "Recall", "Reel", "Retaining", "Room", "Roster", "Scene",
    "Scorekeeper", "Scribe", "Serving", "Settlement", "Sight", "Spot", "Standing", "Supposed", "Surroundings", "Tended",
    "Term", "Then", "Told", "Trail", "Trails", "Voice", "Watching", "WeekCourse", "WorkspaceDoor",
}  # fmt: skip
FUNCTION_METAPHORS = {
    "born_in", "breakage", "door_of", "farewell", "hear", "historian", "in_new_words", "is_shut_out", "known_as",
    "let_go", "lookout", "made_room", "objection_to", "patiently", "reckon", "reel_of", "roster", "sight_of",
    "surround", "tend",
}  # fmt: skip
SHARED_NAMES = {"__main__", "agents", "command", "errors", "ports", "sessions", "settings", "tables"}
"""Names that several packages of a layer may use: entry points, and the words of the domain."""
VAGUE_SUBJECTS = {"somebody", "nobody", "who", "whoever", "what", "whom", "whatever"}
VAGUE_TEST_WORDS = VAGUE_SUBJECTS - {"who", "what", "whatever"} | {"he", "hears", "her", "him", "his", "she", "tells"}
"""The name of a test says what is tested in plain words, with its subject."""
SPAWNER = SERVER / "execution" / "agent" / "spawner"


def test_no_module_has_a_meaningless_name() -> None:
    paths = modules(SERVER, SCHEMA, ROOT / "tests")
    bad = [
        place(path)
        for path in paths
        if EMPTY_WORDS & {word for part in path.relative_to(ROOT).with_suffix("").parts for word in part.split("_")}
    ]
    assert bad == []


def test_the_names_of_tests_are_plain() -> None:
    found = [
        f"{place(path, node)} {node.name}"
        for path in modules(ROOT / "tests")
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and VAGUE_TEST_WORDS & set(node.name.split("_"))
    ]
    assert found == []


def test_no_module_is_named_by_a_metaphor() -> None:
    assert [place(path) for path in modules(SERVER, SCHEMA) if METAPHORS & {path.stem, path.parent.name}] == []


def test_no_class_is_named_by_a_metaphor() -> None:
    found = [f"{place(path, node)} {node.name}" for path, node in _classes(SERVER, SCHEMA)]
    assert [name for name in found if name.rpartition(" ")[2].lstrip("_") in CLASS_METAPHORS] == []


def test_no_function_is_named_by_a_metaphor() -> None:
    found = [
        f"{place(path, node)} {node.name}"
        for path in modules(SERVER, SCHEMA)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert [name for name in found if name.rpartition(" ")[2].lstrip("_") in FUNCTION_METAPHORS] == []


def test_a_module_name_is_used_once_in_a_layer() -> None:
    places: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path in modules(SERVER, SCHEMA):
        if path.name != "__init__.py" and is_hand_written(path) and SPAWNER not in path.parents:
            places[_layer(path), path.stem].append(place(path))
    shared = {key: found for key, found in places.items() if len(found) > 1 and key[1] not in SHARED_NAMES}
    assert shared == {}


def test_a_public_class_name_is_used_once_in_core_and_service() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path, node in _classes(SERVER / "core", SERVER / "service"):
        if not node.name.startswith("_"):
            places[node.name].append(place(path, node))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_every_module_has_a_docstring() -> None:
    assert [place(path) for path in modules(SERVER, SCHEMA) if not ast.get_docstring(tree(path))] == []


def test_module_docstrings_begin_with_a_noun() -> None:
    first = {place(path): (ast.get_docstring(tree(path)) or "-").split()[0] for path in modules(SERVER, SCHEMA)}
    assert {name: word for name, word in first.items() if word.lower().strip(",:") in VAGUE_SUBJECTS} == {}


def test_every_folder_with_code_is_a_package() -> None:
    # `spawner` is run as a folder by `python -I`, and is also a package.
    folders = {path.parent for path in modules(SERVER, SCHEMA)}
    assert sorted(place(folder) for folder in folders if not (folder / "__init__.py").is_file()) == []


def _layer(path: Path) -> str:
    if SERVER in path.parents:
        return path.relative_to(SERVER).parts[0]
    parts = path.relative_to(SCHEMA).parts
    return parts[0] if parts[0] in ("graphql", "views") else "schema"


def _classes(*folders: Path) -> list[tuple[Path, ast.ClassDef]]:
    return [
        (path, node)
        for path in modules(*folders)
        if is_hand_written(path)
        for node in tree(path).body
        if isinstance(node, ast.ClassDef)
    ]
