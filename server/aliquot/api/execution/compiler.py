"""The compiler: a selection of attribute reads becomes one function."""

from typing import Any, Final

from graphql import (
    GraphQLAbstractType,
    GraphQLList,
    GraphQLNonNull,
    GraphQLObjectType,
    GraphQLOutputType,
    is_abstract_type,
    is_leaf_type,
)
from graphql.execution import Executor, default_type_resolver
from graphql.execution.collect_fields import FieldDetails

from aliquot.api.execution.function_text import FunctionText, Reader
from aliquot.api.execution.leaves import leaf_expression
from aliquot.api.execution.place import Place
from aliquot.api.execution.selections import Read, Uncompilable, reads
from aliquot.api.execution.surprises import PLAIN, Surprise, admit, surprised

FIELDS_MAX: Final = 1000
"""A larger selection is not compiled: that would take longer than most executions save."""


class TooLarge(Uncompilable):
    """The selection has too many fields."""


def compiled(executor: Executor[Any], type_: GraphQLOutputType, details: list[FieldDetails]) -> Reader:
    """Compile what an operation selects of a value that is not null.

    Raises:
        Uncompilable: it is more than attribute reads, or too large.
    """
    compiler = _Compiler(executor)
    body = [f"return {compiler.expression(type_, 'v', details, is_required=True)}"]
    return compiler.text.compile(compiler.text.function("v", body))


class _Compiler:
    def __init__(self, executor: Executor[Any]) -> None:
        self.text = FunctionText()
        self._executor = executor
        self._fields = 0
        self._names = {value: self.text.constant(value) for value in (Surprise, admit, surprised)}
        self._plain = self.text.constant(PLAIN)
        self._known: dict[tuple[str, tuple[int, ...]], str] = {}

    def expression(
        self, type_: GraphQLOutputType, variable: str, details: list[FieldDetails], *, is_required: bool = False
    ) -> str:
        """Write the expression that completes a variable."""
        if isinstance(type_, GraphQLNonNull):
            return self.expression(type_.of_type, variable, details, is_required=True)
        if is_leaf_type(type_):
            return leaf_expression(type_, variable, is_required=is_required, text=self.text)
        # A function refuses None by itself, so it is asked for where nothing may be missing.
        call = f"{self._function(type_, details)}({variable})"
        return call if is_required else f"(None if {variable} is None else {call})"

    def _function(self, type_: GraphQLOutputType, details: list[FieldDetails]) -> str:
        key = (str(type_), tuple(id(field.node) for field in details))
        if key not in self._known:
            self._known[key] = self._written(type_, details)
        return self._known[key]

    def _written(self, type_: GraphQLOutputType, details: list[FieldDetails]) -> str:
        if isinstance(type_, GraphQLList):
            return self._list(type_, details)
        if isinstance(type_, GraphQLObjectType):
            return self._object(type_, details)
        if is_abstract_type(type_):
            return self._abstract(type_, details)
        raise Uncompilable

    def _list(self, type_: GraphQLList[GraphQLOutputType], details: list[FieldDetails]) -> str:
        body = [
            f"if type(v) is not tuple and type(v) is not list: raise {self._names[Surprise]}",
            f"return [{self.expression(type_.of_type, 'x', details)} for x in v]",
        ]
        return self.text.function("v", body)

    def _object(self, type_: GraphQLObjectType, details: list[FieldDetails]) -> str:
        body = [self._admission()]
        if type_.is_type_of is not None:
            place = self.text.constant(Place.of(self._executor, details))
            body.append(f"if {self.text.constant(type_.is_type_of)}(o, {place}) is not True: {self._surprised()}")
        entries = []
        for number, read in enumerate(reads(self._executor, type_, details)):
            self._count()
            if read.attribute is not None:
                body.append(f"v{number} = o.{read.attribute}")
            entries.append(f"{read.key!r}: {self._entry(read, f'v{number}', type_)}")
        return self.text.function("o", [*body, f"return {{{', '.join(entries)}}}"])

    def _entry(self, read: Read, variable: str, parent: GraphQLObjectType) -> str:
        return repr(parent.name) if read.type is None else self.expression(read.type, variable, read.details)

    def _abstract(self, type_: GraphQLAbstractType, details: list[FieldDetails]) -> str:
        readers = {}
        for possible in self._executor.schema.get_possible_types(type_):
            try:
                readers[possible.name] = self._function(possible, details)
            except TooLarge:
                raise
            except Uncompilable:
                continue
        resolve = self.text.constant(type_.resolve_type or default_type_resolver)
        place = self.text.constant(Place.of(self._executor, details))
        name = f"{resolve}(o, {place}, {self.text.constant(type_)})"
        return self.text.function("o", [self._admission(), f"return {self.text.table(readers)}[{name}](o)"])

    def _admission(self) -> str:
        return f"if type(o) not in {self._plain}: {self._names[admit]}(o)"

    def _surprised(self) -> str:
        return f"{self._names[surprised]}()"

    def _count(self) -> None:
        self._fields += 1
        if self._fields > FIELDS_MAX:
            raise TooLarge
