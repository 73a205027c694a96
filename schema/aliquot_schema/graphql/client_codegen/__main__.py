"""Entry point that writes the client's generated package: `python -m aliquot_schema.graphql.client_codegen`."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import strawberry
from graphql import GraphQLNamedType
from graphql import build_schema as read_schema

from aliquot_schema.graphql.client_codegen.files import check, files
from aliquot_schema.graphql.schema import build_schema

ROOT: Final = Path(__file__).parents[4]
TARGET: Final = ROOT / "server" / "aliquot" / "client" / "generated"


def generated() -> dict[str, str]:
    """Formatted text by file name. Requires ruff, a development dependency."""
    built = build_schema(strawberry.Schema)
    schema = read_schema(built.as_str())
    check(schema)
    sources = {name: _source_module(of) for name, of in built._schema.type_map.items()}
    return {name: _formatted(text) for name, text in files(schema, sources=sources).items()}


def write() -> None:
    """Write all files, and remove stale ones."""
    TARGET.mkdir(exist_ok=True)
    texts = generated()
    for old in TARGET.glob("*.py"):
        if old.name not in texts:
            old.unlink()
    for name, text in texts.items():
        (TARGET / name).write_text(text, encoding="utf-8")


def _source_module(of: GraphQLNamedType) -> str:
    definition = of.extensions.get("strawberry-definition")
    return str(getattr(getattr(definition, "origin", None), "__module__", ""))


def _formatted(text: str) -> str:
    for step in (("check", "--select", "I", "--fix-only", "--quiet"), ("format", "--quiet")):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *step, "--stdin-filename", str(TARGET / "text.py"), "-"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        )
        text = done.stdout
    return text


if __name__ == "__main__":
    write()
