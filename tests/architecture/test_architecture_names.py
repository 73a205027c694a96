"""Names and docstrings: modules are nouns that say what is inside, and every one begins with a sentence."""

import ast

from architecture_sources import ROOT, SCHEMA, SERVER, modules, place, tree

FORBIDDEN_NAMES = {"utils", "util", "common", "helpers", "helper", "manager", "base", "misc"}


def test_no_module_has_a_name_that_says_nothing() -> None:
    paths = modules(SERVER, SCHEMA, ROOT / "tests")
    bad = [
        place(path)
        for path in paths
        if FORBIDDEN_NAMES & {word for part in path.relative_to(ROOT).with_suffix("").parts for word in part.split("_")}
    ]
    assert bad == []


def test_every_module_says_what_it_is() -> None:
    assert [place(path) for path in modules(SERVER, SCHEMA) if not ast.get_docstring(tree(path))] == []


def test_every_folder_with_code_is_a_package() -> None:
    # `spawner` is run as a folder by `python -I`, and is a package besides.
    folders = {path.parent for path in modules(SERVER, SCHEMA)}
    assert sorted(place(folder) for folder in folders if not (folder / "__init__.py").is_file()) == []
