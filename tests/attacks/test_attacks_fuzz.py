"""Fuzzing of the parsers of files, agent messages and cookies: each gives a value or its own error.

`tests/data/fuzz` keeps a corpus for each parser: valid inputs to start from, and inputs that once broke it. Each
example is one of them with parts removed, doubled, moved or replaced. `scripts/test --long` tries a hundred times as
many. Outputs of jobs have tests of their own, test_service_output_pieces.py.
"""

import gzip
import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine

from aliquot.api.authentication import Cookies
from aliquot.cli.simulation.rows import read_policy
from aliquot.cli.simulation.source import read_nodes
from aliquot.cli.trace_files import read_jobs
from aliquot.client import NoPlace
from aliquot.client.config import read_clusters
from aliquot.errors import ConfigurationError
from aliquot.execution.devices.mock import read_mock_file
from aliquot.execution.devices.plugin import DeviceFileError
from aliquot.execution.remote.codec import MessageAssembler, ProtocolError, decode
from aliquot.service.ports import StoreUnavailable
from aliquot.settings import read_settings
from aliquot.store.export import import_archive
from aliquot.store.hash_chain import ChainBroken
from aliquot.store.migration import migrate
from aliquot_schema.errors import AliquotError

CORPUS: Final = Path(__file__).parents[1] / "data" / "fuzz"
EXAMPLES: Final = 4000 if "ALIQUOT_TESTS_LONG" in os.environ else 40
TOKENS: Final = (
    *(
        b"",
        b"\0",
        b"\n",
        b",",
        b'"',
        b"'",
        b"[",
        b"]",
        b"{",
        b"}",
        b"=",
        b"-",
        b".",
        b"#",
        b"\\",
        b"\xff",
        b"\xed\xa0\x80",
    ),
    *(
        b"null",
        b"true",
        b"nan",
        b"inf",
        b"-1",
        b"0",
        b"1e999",
        b"9" * 40,
        b"9223372036854775808",
        b"18446744073709551616",
    ),
    *(b"\x81\xa1a\xc0", b"\xc1", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"[" * 3000, b"\xe2\x80\xae"),
)


@dataclass(frozen=True, slots=True)
class Parser:
    """A parser of untrusted bytes, and its expected errors."""

    parse: Callable[[bytes, Path], object]
    refuses: tuple[type[Exception], ...]


def _frames(data: bytes, _: Path) -> None:
    whole = MessageAssembler(bytes_max=1 << 20)
    for start in range(0, len(data), 512):
        message = whole.add(data[start : start + 512])
        if message is not None:
            decode(message)
    decode(data)


def _file(name: str, read: Callable[[Path], Any]) -> Callable[[bytes, Path], object]:
    def parse(data: bytes, folder: Path) -> object:
        path = folder / name
        path.write_bytes(data)
        return read(path)

    return parse


def _clusters(path: Path) -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(path.parent.parent))
        return read_clusters()


def _settings(path: Path) -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ALIQUOT_CONFIG", str(path))
        return read_settings(warns=False)


def _archive(data: bytes, folder: Path) -> None:
    """Import the bytes as they are, and with a valid seal, so that changed rows are parsed too."""
    lines = data.splitlines(keepends=True)[:-1]
    seal = {"rows": len(lines) - 1, "sha256": hashlib.sha256(b"".join(lines)).hexdigest()}
    try:
        _imported(gzip.compress(b"".join(lines) + json.dumps(seal).encode() + b"\n", 1), folder)
    except PARSERS["archive"].refuses:
        _imported(gzip.compress(data, 1), folder)


def _imported(data: bytes, folder: Path) -> None:
    path = folder / "all.aliquot"
    path.write_bytes(data)
    engine = create_engine("sqlite://")
    try:
        with engine.connect() as connection:
            connection.connection.driver_connection.deserialize(_migrated())
            import_archive(connection, path=path)
    finally:
        engine.dispose()


@cache
def _migrated() -> bytes:
    """An empty database with the current schema; making one takes longer than an import."""
    engine = create_engine("sqlite://")
    try:
        with engine.connect() as connection:
            migrate(connection)
            return connection.connection.driver_connection.serialize()
    finally:
        engine.dispose()


def _cookie(data: bytes, _: Path) -> None:
    signer = Cookies(b"a token of the tests", now=lambda: 1e9)
    assert signer.read(data.decode("latin-1")) is None or data.startswith(b"key_")


PARSERS: Final = {
    "agent-frames": Parser(_frames, (ProtocolError,)),
    "mock-devices": Parser(_file("devices.toml", read_mock_file), (DeviceFileError,)),
    "clusters": Parser(_file("aliquot/clusters.toml", _clusters), (NoPlace,)),
    "settings": Parser(_file("aliquot.toml", _settings), (ConfigurationError,)),
    "archive": Parser(_archive, (StoreUnavailable, ChainBroken)),
    "trace": Parser(_file("trace.csv", read_jobs), (AliquotError,)),
    "nodes": Parser(_file("nodes.csv", read_nodes), (AliquotError,)),
    "policy": Parser(_file("policy.yaml", read_policy), (AliquotError, SystemExit)),
    "cookie": Parser(_cookie, ()),
}


def kept(name: str) -> list[bytes]:
    """The corpus of a parser."""
    return [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]


@st.composite
def spoilt(draw: st.DrawFn, corpus: list[bytes]) -> bytes:
    """A corpus entry with up to four changes."""
    data = draw(st.sampled_from(corpus))
    for _ in range(draw(st.integers(0, 4))):
        begin = draw(st.integers(0, len(data)))
        end = min(len(data), begin + draw(st.sampled_from((0, 1, 2, 8, 64, 4096))))
        piece = draw(st.one_of(st.sampled_from(TOKENS), st.binary(max_size=6), st.just(data[begin:end] * 2)))
        data = data[:begin] + piece + data[end:]
    return data


@pytest.mark.parametrize("name", PARSERS)
def test_every_input_of_the_corpus_is_read_or_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "aliquot").mkdir()
    assert kept(name)
    for data in kept(name):
        check(name, data, tmp_path)


@pytest.mark.filterwarnings("ignore::aliquot_schema.deprecation.DeprecatedName")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", PARSERS)
def test_no_bytes_break_a_parser(name: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "aliquot").mkdir()

        @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        @given(st.one_of(spoilt(kept(name)), spoilt(kept(name)), st.binary(max_size=300)))
        def every(data: bytes) -> None:
            check(name, data, folder)

        every()


def check(name: str, data: bytes, folder: Path) -> None:
    """Expect a value, or an error of the parser that fits a terminal."""
    parser = PARSERS[name]
    try:
        parser.parse(data, folder)
    except parser.refuses as error:
        said = str(error)
        assert said
        assert len(said) < 20_000
