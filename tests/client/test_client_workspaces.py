"""Which files of a working directory are uploaded or skipped."""

import errno
import os
import subprocess
from pathlib import Path

import pytest
from typer import Exit

from aliquot.cli.working_directory import activated_by, environments_of
from aliquot.client.workspaces import WorkspaceFault, _batches, _scan, git_state
from aliquot_schema.cluster.workspaces import BLOCK_BYTES, workspace_fault


def made(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_gitignore_files_of_all_folders_decide(tmp_path: Path) -> None:
    made(tmp_path, **{"a.py": "1", "b.log": "1", "data__x": "1", "sub__keep.log": "1", "sub__c.tmp": "1"})
    made(tmp_path, **{".gitignore": "*.log\ndata/\n", "sub__.gitignore": "!keep.log\n*.tmp\n", ".git__config": "x"})
    (tmp_path / "link").symlink_to("a.py")
    (tmp_path / "a.py").chmod(0o700)
    found, _ = _scan(tmp_path)
    assert [file.path for file in found.files] == [".gitignore", "a.py", "link", "sub/.gitignore", "sub/keep.log"]
    assert [file.path for file in found.files if file.executable] == ["a.py"]
    assert workspace_fault(found) is None
    assert _scan(tmp_path)[0].id == found.id


def test_lines_of_a_gitignore_are_read_as_git_does(tmp_path: Path) -> None:
    made(tmp_path, **{"a.log": "1", "b.tmp": "1", "c": "1", "sub__d.tmp": "1"})
    made(tmp_path, **{".gitignore": "\ufeff*.log\r\n!\n\\\n[z-a]\n*.tmp\r\n", "sub__.gitignore": "!*.tmp\n"})
    assert [file.path for file in _scan(tmp_path)[0].files] == [".gitignore", "c", "sub/.gitignore", "sub/d.tmp"]


def test_large_files_are_sent_in_blocks_and_equal_blocks_once(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"a" * (2 * BLOCK_BYTES + 5))
    found, sources = _scan(tmp_path)
    assert len(found.files[0].blocks) == 3
    assert len(found.blocks) == 2
    sent = list(_batches([block for block, _ in found.blocks], sources))
    assert sum(map(len, sent)) == BLOCK_BYTES + 5 + 2 * 8
    (tmp_path / "large").write_bytes(b"b" * 10)
    with pytest.raises(WorkspaceFault, match="changed while"):
        list(_batches([found.files[0].blocks[0]], sources))
    (tmp_path / "large").unlink()
    with pytest.raises(WorkspaceFault, match="large cannot be read any more: No such file or directory"):
        list(_batches([found.files[0].blocks[0]], sources))


def test_file_names_that_cannot_be_unpacked_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a\nb").touch()
    with pytest.raises(WorkspaceFault, match=r"list it in \.gitignore"):
        _scan(tmp_path)
    with pytest.raises(WorkspaceFault, match="is not a folder"):
        _scan(tmp_path / "none")


def test_a_folder_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path, a="1", secret__b="1")
    scandir = os.scandir

    def refuse(folder: Path) -> object:
        if folder.name == "secret":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(WorkspaceFault, match=r"secret cannot be read: Permission denied; list it in \.gitignore"):
        _scan(tmp_path)
    made(tmp_path, **{".gitignore": "secret/\n"})
    assert [file.path for file in _scan(tmp_path)[0].files] == [".gitignore", "a"]


def test_the_workspace_commit_and_diff_are_those_of_git(tmp_path: Path) -> None:
    assert git_state(tmp_path) is None
    made(tmp_path, a="1\n")
    for words in ("init -q -b main", "add a", "-c user.name=n -c user.email=a@b commit -qm x"):
        subprocess.run(["git", "-C", str(tmp_path), *words.split()], check=True)
    clean = git_state(tmp_path)
    assert clean is not None
    assert (clean.branch, clean.diff, len(clean.commit)) == ("main", "", 40)
    made(tmp_path, a="2\n")
    changed = git_state(tmp_path)
    assert changed is not None
    assert "-1\n+2\n" in changed.diff


def test_env_options_set_variables_or_one_python_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert environments_of(["A=1", "uv"]) == (["A=1"], "uv")
    assert environments_of(None) == (None, None)
    monkeypatch.setenv("CONDA_EXE", "/opt/conda/bin/conda")
    assert activated_by("conda:train") == "/opt/conda/envs/train"
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    made(tmp_path, **{".venv__bin__python": ""})
    assert activated_by("venv") == str(tmp_path / ".venv")
    for wrong in (["uv", "venv"], ["nothing"]):
        with pytest.raises(Exit):
            environments_of(wrong)
