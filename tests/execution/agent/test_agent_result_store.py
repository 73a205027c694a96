"""The results store: interrupted copies are not kept, and expiry deletes only copies of sessions."""

import hashlib
import io
import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fsspec.asyn import sync
from moto.server import ThreadedMotoServer

from aliquot.execution.result_store import BLOCK_BYTES, FolderStorage, ObjectStorage, ResultStore, S3Storage
from aliquot_schema.cluster.results import ResultListing
from aliquot_schema.ids import AgentId, SessionId

SESSION = SessionId("ses_1")
LONG = os.urandom(9 * BLOCK_BYTES)


class Broken(io.BytesIO):
    """A file whose second block cannot be read."""

    reads = 0

    def read(self, size: int | None = -1) -> bytes:
        self.reads += 1
        if self.reads > 1:
            raise OSError("the disk is broken")
        return super().read(size)


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Storage]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    try:
        host, port = server.get_host_and_port()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        assert httpx.put(f"http://{host}:{port}/fixed-bucket").status_code == 200
        storage = S3Storage("s3://fixed-bucket/lab")
        yield storage
        _disconnect(storage)
    finally:
        server.stop()


def _disconnect(storage: S3Storage) -> None:
    """Close the connections; s3fs itself gives up after 0.1 s, and its warning fails a later test."""
    files = storage._files
    if files._s3 is not None:
        sync(files.loop, files._s3creator.__aexit__, None, None, None)


@pytest.fixture(params=["folder", "s3"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStorage:
    if request.param == "folder":
        return FolderStorage(tmp_path)
    found: S3Storage = request.getfixturevalue("s3")
    return found


def test_an_interrupted_copy_is_not_kept_and_the_next_one_is(storage: ObjectStorage) -> None:
    store, sha256 = ResultStore(storage), hashlib.sha256(LONG).hexdigest()
    name = f"{SESSION}/objects/{sha256}"
    with pytest.raises(OSError, match="broken"):
        store.keep(SESSION, sha256, Broken(LONG), size=len(LONG))
    assert not storage.has(name, size=len(LONG))
    with pytest.raises(FileNotFoundError):
        list(storage.read(name))
    assert not store.keep(SESSION, sha256, io.BytesIO(LONG[:-1]), size=len(LONG))
    assert store.keep(SESSION, sha256, io.BytesIO(LONG), size=len(LONG))
    assert b"".join(store.read(SESSION, sha256, offset=0, length=len(LONG))) == LONG


@pytest.mark.parametrize("content", [b"", b"small", LONG[: 8 * BLOCK_BYTES]])
def test_copies_of_every_size_are_whole(storage: ObjectStorage, content: bytes) -> None:
    store, sha256 = ResultStore(storage), hashlib.sha256(content).hexdigest()
    assert store.keep(SESSION, sha256, io.BytesIO(content), size=len(content))
    assert storage.has(f"{SESSION}/objects/{sha256}", size=len(content))
    assert b"".join(store.read(SESSION, sha256, offset=0, length=len(content))) == content


def test_a_truncated_copy_of_an_earlier_version_is_written_again(storage: ObjectStorage) -> None:
    store, sha256 = ResultStore(storage), hashlib.sha256(LONG).hexdigest()
    storage.write(f"{SESSION}/objects/{sha256}", io.BytesIO(LONG[:9]))
    assert store.keep(SESSION, sha256, io.BytesIO(LONG), size=len(LONG))
    assert storage.has(f"{SESSION}/objects/{sha256}", size=len(LONG))


def test_expiry_deletes_only_copies_of_sessions(storage: ObjectStorage, tmp_path: Path) -> None:
    store = ResultStore(storage)
    foreign = ("README", "datasets/a.json", "datasets/objects/a", "ses_notes", "ses_other/data.bin", "ses 2/a.json")
    for name in foreign:
        storage.write(name, io.BytesIO(b"mine"))
    store.keep(SESSION, hashlib.sha256(b"a").hexdigest(), io.BytesIO(b"a"), size=1)
    store.finish(SESSION, AgentId("agent"), ResultListing(), draft=tmp_path / "draft")
    store.keep(SessionId("ses_begun"), hashlib.sha256(b"a").hexdigest(), io.BytesIO(b"a"), size=1)
    assert store.expire(3600) == []
    assert sorted(store.expire(-3600)) == [SESSION, "ses_begun"]
    assert all(storage.has(name, size=4) for name in foreign)
    assert storage.ages() == {}


def test_a_long_copy_under_way_does_not_expire(tmp_path: Path) -> None:
    store = ResultStore(FolderStorage(tmp_path))
    store.keep(SESSION, hashlib.sha256(b"a").hexdigest(), io.BytesIO(b"a"), size=1)
    for path in (tmp_path / SESSION, tmp_path / SESSION / "objects"):
        os.utime(path, (0, 0))
    assert store.expire(3600) == []
