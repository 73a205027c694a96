"""Member documentation: the strings below the members of a class in its source."""

import ast
import inspect
from collections.abc import Mapping
from itertools import pairwise
from textwrap import dedent


def member_docs(cls: type) -> Mapping[str, str]:
    """Strings by member name; members without a string are missing."""
    (node,) = ast.parse(dedent(inspect.getsource(cls))).body
    assert isinstance(node, ast.ClassDef)
    found: dict[str, str] = {}
    for statement, follower in pairwise(node.body):
        name = _assigned(statement)
        if name and isinstance(follower, ast.Expr) and isinstance(follower.value, ast.Constant):
            found[name] = inspect.cleandoc(str(follower.value.value))
    return found


def _assigned(statement: ast.stmt) -> str | None:
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0].id
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return statement.target.id
    return None
