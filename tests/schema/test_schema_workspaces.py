"""Workspaces: which listings are valid, and their names."""

import pytest
from msgspec.structs import replace

from aliquot_schema.cluster.workspaces import (
    BLOCK_BYTES,
    FILES_MAX,
    GitState,
    Workspace,
    WorkspaceFile,
    workspace_fault,
)

BLOCK = "ab" * 32
GOOD = WorkspaceFile(path="a/b.py", size=3, blocks=(BLOCK,))


def test_a_workspace_is_named_by_its_files_and_its_commit() -> None:
    one = Workspace(files=(GOOD,))
    assert one.id == Workspace(files=(GOOD,)).id
    assert len({one.id, Workspace(files=(replace(GOOD, executable=True),)).id, Workspace().id}) == 3
    assert replace(one, git=GitState(commit="0" * 40)).id != one.id
    large = WorkspaceFile(path="x", size=BLOCK_BYTES + 1, blocks=("ef" * 32, "cd" * 32))
    assert Workspace(files=(GOOD, large)).blocks == ((BLOCK, 3), ("ef" * 32, BLOCK_BYTES), ("cd" * 32, 1))
    assert workspace_fault(Workspace(files=(GOOD, large))) is None


@pytest.mark.parametrize(
    "file",
    [
        *(replace(GOOD, path=path) for path in ("", "/etc/x", "../x", "a/../x", "a//b", "a/./b", "a\n", "x" * 300)),
        replace(GOOD, size=-1),
        replace(GOOD, size=0),
        replace(GOOD, size=BLOCK_BYTES + 1),
        replace(GOOD, blocks=("../../x",)),
        replace(GOOD, blocks=(BLOCK.upper(),)),
        *(WorkspaceFile(path="a/l", link=link) for link in ("", "/etc/passwd", "../../x", "b/../../../x", "a\0b")),
        WorkspaceFile(path="l", link="..", size=1),
    ],
)
def test_invalid_paths_sizes_and_links_are_refused(file: WorkspaceFile) -> None:
    assert workspace_fault(Workspace(files=(file,))) is not None


def test_links_within_the_tree_are_accepted_and_files_below_links_are_refused() -> None:
    link = WorkspaceFile(path="d", link="e/f")
    inner = WorkspaceFile(path="e/g", link="../d")
    assert workspace_fault(Workspace(files=(link, inner))) is None
    assert "below another" in str(workspace_fault(Workspace(files=(link, replace(GOOD, path="d/x")))))


def test_order_number_and_commit_are_checked() -> None:
    other = replace(GOOD, path="b")
    assert workspace_fault(Workspace(files=(other, GOOD))) is not None
    assert workspace_fault(Workspace(files=(GOOD, GOOD))) is not None
    many = tuple(WorkspaceFile(path=f"{number:06}") for number in range(FILES_MAX + 1))
    assert "are allowed" in str(workspace_fault(Workspace(files=many)))
    assert workspace_fault(Workspace(git=GitState(commit="main"))) is not None


def test_a_block_with_two_different_sizes_is_refused() -> None:
    """A listing thus gives the bytes it writes."""
    large = WorkspaceFile(path="z", size=BLOCK_BYTES, blocks=(BLOCK,))
    assert "has 4194304 bytes here and 3 elsewhere" in str(workspace_fault(Workspace(files=(GOOD, large))))
    twice = WorkspaceFile(path="z", size=BLOCK_BYTES + 1, blocks=(BLOCK, BLOCK))
    assert "has 1 bytes here and 4194304 elsewhere" in str(workspace_fault(Workspace(files=(twice,))))
    assert workspace_fault(Workspace(files=(GOOD, replace(GOOD, path="z")))) is None
