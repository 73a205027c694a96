"""Public names: none disappears without having been deprecated for two minor releases."""

import pytest

from public_names import SURFACES, broken_promises, present, recorded, removed, version

ENTRY = {"surface": "rest", "name": "GET /old", "deprecated-in": "0.1", "removed-in": "0.3"}


@pytest.mark.parametrize("surface", SURFACES)
def test_no_public_name_was_removed_without_deprecation(surface: str) -> None:
    names, before = present(surface), recorded(surface)
    assert len(before) > 30
    assert broken_promises(surface, names=names, before=before, removals=removed(), release=version()) == []


def test_removals_are_of_known_surfaces() -> None:
    assert {entry["surface"] for entry in removed()} <= SURFACES.keys()


@pytest.mark.parametrize(
    ("names", "entry", "release", "words"),
    [
        ({"GET /a", "GET /old"}, None, "0.1.0", None),
        ({"GET /a", "GET /old", "GET /new"}, None, "0.1.0", None),
        (
            {"GET /a"},
            None,
            "0.9.0",
            "GET /old is gone. Programs of users rely on it. Bring it back as a ",
        ),
        ({"GET /a"}, ENTRY, "0.3.0", None),
        ({"GET /a"}, ENTRY | {"removed-in": "1.0"}, "1.0.0", None),
        ({"GET /a"}, ENTRY, "0.2.9", "GET /old may be removed in 0.3; this is 0.2.9. Bring it back until then."),
        (
            {"GET /a"},
            ENTRY | {"removed-in": "0.2"},
            "0.2.0",
            "GET /old was deprecated in 0.1, so it works until 0.3, not 0.2.",
        ),
        (
            {"GET /a", "GET /old"},
            ENTRY,
            "0.3.0",
            "GET /old is listed in removed.toml and still there. Take it off the list.",
        ),
        ({"GET /a"}, ENTRY | {"surface": "graphql"}, "0.3.0", "GET /old is gone."),
    ],
)
def test_a_public_name_may_be_removed_only_after_its_deprecation(
    names: set[str], entry: dict[str, str] | None, release: str, words: str | None
) -> None:
    removals = [] if entry is None else [entry]
    found = broken_promises("rest", names=names, before={"GET /a", "GET /old"}, removals=removals, release=release)
    assert (found == []) if words is None else found[0].startswith(words)
