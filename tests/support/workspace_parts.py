"""Working directories for tests: a small tree, its blocks, and the service over a folder."""

import hashlib
from pathlib import Path

from aliquot.clock import SystemClock
from aliquot.execution.result_store import FolderStorage
from aliquot.execution.workspace_store import StoredWorkspaces
from aliquot.service.accounts.workspaces import WorkspaceRules, Workspaces
from aliquot.service.state.journal import Journal
from aliquot.service.state.state import State
from aliquot_schema.cluster.workspaces import Workspace, WorkspaceFile

RULES = WorkspaceRules(bytes_max=1000, user_bytes_max=1500, kept_s=100.0)


def named(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def tree(**files: str) -> Workspace:
    """Regular files; `a__b` is the path `a/b`."""
    texts = {name.replace("__", "/"): text.encode() for name, text in files.items()}
    made = [WorkspaceFile(path=path, size=len(data), blocks=(named(data),)) for path, data in sorted(texts.items())]
    return Workspace(files=tuple(made))


def sized(*blocks: bytes) -> bytes:
    """Blocks as they are sent: each after its length."""
    return b"".join(len(data).to_bytes(8, "big") + data for data in blocks)


def workspaces_of(state: State, journal: Journal, folder: Path, rules: WorkspaceRules = RULES) -> Workspaces:
    store = StoredWorkspaces(FolderStorage(folder))
    return Workspaces(state=state, journal=journal, clock=SystemClock(), store=store, rules=rules)
