"""The lines that install the units: files they copy exist, and files the units read are written by the pages."""

import re
from typing import Final

from docs_blocks import blocks
from docs_commands import unknown_words
from docs_tree import DOCS, ROOT, pages

PAGE: Final = DOCS / "operating" / "second-node.md"
UNITS: Final = ROOT / "docker" / "systemd"
WHY: Final = re.compile(r"^\| `([A-Z]\w+=\w+)` \|", re.MULTILINE)
WRITTEN: Final = {block.file: block.text for block in blocks(PAGE) if block.file is not None}
SHELL: Final = "".join(block.text for block in blocks(PAGE) if block.language == "bash")


def _installed(folder: str) -> set[str]:
    """Names of files that the page's lines install."""
    copies = re.findall(rf"^sudo install -m \d+ (.+) {folder}/$", SHELL, re.MULTILINE)
    return {word.rsplit("/", 1)[-1] for words in copies for word in words.split()}


def _unit(name: str) -> str:
    return (UNITS / f"{name}.service").read_text(encoding="utf-8")


def test_no_page_contains_a_copy_of_a_systemd_unit() -> None:
    assert [page for page in pages() if "[Service]" in page.read_text(encoding="utf-8")] == []


def test_every_unit_is_installed_and_started() -> None:
    assert _installed("/etc/systemd/system") == {path.name for path in UNITS.iterdir()}
    started = re.findall(r"^sudo systemctl enable --now (\S+)$", SHELL, re.MULTILINE)
    assert {f"{name}.service" for name in started} == {path.name for path in UNITS.glob("*.service")}


def test_the_documented_commands_install_every_file_that_units_and_settings_read() -> None:
    read = "".join((_unit("aliquot-server"), _unit("aliquot-agent"), *WRITTEN.values()))
    named = set(re.findall(r"/etc/aliquot/([\w.]+)", read))
    assert WRITTEN.keys() <= named
    # The key is copied by hand: it is on no other host.
    assert named - _installed("/etc/aliquot") == {"gpu02.key"}


def test_the_documented_link_is_the_program_path_of_the_units() -> None:
    target, link = re.findall(r"^sudo ln -sfT (\S+) (\S+)$", SHELL, re.MULTILINE)[0]
    assert target == ".venv/bin"
    for unit in ("aliquot-server", "aliquot-agent"):
        assert f"ExecStart={link}/aliquot " in _unit(unit)


def test_the_agents_flags_exist() -> None:
    name, _, flags = WRITTEN["agent.env"].strip().partition("=")
    line = next(line for line in _unit("aliquot-agent").splitlines() if line.startswith("ExecStart="))
    assert line.endswith(f" ${name}")
    assert unknown_words(line.replace(f"${name}", flags)) == []
    assert unknown_words(line.replace(f"${name}", "--no-such-flag")) == ["--no-such-flag"]


def test_the_unit_lines_explained_in_the_docs_are_in_both_units() -> None:
    explained = WHY.findall(PAGE.read_text(encoding="utf-8"))
    assert len(explained) >= 4
    for unit in ("aliquot-server", "aliquot-agent"):
        assert set(explained) <= set(_unit(unit).splitlines())
