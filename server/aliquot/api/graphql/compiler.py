"""Compiler: turns a selection of attribute reads into one generated Python function.

Only fields that read an attribute are compiled. A value of exactly the expected class is copied or looked up in a
table; other values go through the type's own coercion. A value that this rejects raises `Fallback`, and
graphql-core completes it, with its own errors and nulls.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from enum import Enum
from functools import lru_cache
from keyword import iskeyword
from typing import Any, Final, Self

from graphql import (
    GraphQLAbstractType,
    GraphQLBoolean,
    GraphQLEnumType,
    GraphQLFloat,
    GraphQLID,
    GraphQLInt,
    GraphQLLeafType,
    GraphQLList,
    GraphQLNonNull,
    GraphQLObjectType,
    GraphQLOutputType,
    GraphQLSchema,
    GraphQLString,
    Undefined,
    is_abstract_type,
    is_leaf_type,
)
from graphql.execution import Executor, default_type_resolver
from graphql.execution.collect_fields import FieldDetails, collect_subfields
from msgspec import Struct
from strawberry.execution import optimized_is_awaitable
from strawberry.schema.schema_converter import CustomGraphQLEnumType
from strawberry.types.field import StrawberryField

from aliquot_schema.graphql.scalars import format_priority, format_time
from aliquot_schema.sessions import Priority

Reader = Callable[[Any], Any]
"""Takes a resolver's value and returns it completed: plain dictionaries, lists and leaves."""

CONDITIONS: Final = frozenset({"skip", "include"})
PLAIN: Final[set[type]] = set()
"""Classes that `check_plain` has accepted."""
CACHED_TEXTS: Final = 4096
"""Cached texts of times; the same times occur often."""
_UNCHANGED: Final[dict[Any, str]] = {
    GraphQLString.coerce_output_value: "type({0}) is str",
    GraphQLID.coerce_output_value: "type({0}) is str",
    GraphQLBoolean.coerce_output_value: "type({0}) is bool",
    GraphQLInt.coerce_output_value: "type({0}) is int and -2147483648 <= {0} <= 2147483647",
    GraphQLFloat.coerce_output_value: "type({0}) is float and {0} - {0} == 0.0",
    int: "type({0}) is int",
}
"""By coercion function: when it returns the value unchanged."""
_WRITTEN: Final[dict[Any, tuple[type, Callable[[Any], str]]]] = {
    format_time: (datetime, lru_cache(CACHED_TEXTS)(format_time)),
    format_priority: (Priority, lru_cache(CACHED_TEXTS)(format_priority)),
}
"""By coercion function: the class that it is for, and a cached version of it."""
FIELDS_MAX: Final = 1000
"""Larger selections are not compiled: that would take longer than most executions save."""


class FunctionText:
    """Source of functions that call each other, compiled together."""

    def __init__(self) -> None:
        self._scope: dict[str, Any] = {}
        self._lines: list[str] = []
        self._count = 0

    def constant(self, value: object) -> str:
        """Make an object available under a new name."""
        name = self._next("c")
        self._scope[name] = value
        return name

    def table(self, entries: dict[str, str]) -> str:
        """Add a dictionary from text to functions; returns its name."""
        name = self._next("t")
        self._lines.append(f"{name} = {{{', '.join(f'{key!r}: {entry}' for key, entry in entries.items())}}}")
        return name

    def function(self, parameter: str, body: Sequence[str]) -> str:
        """Add a function with one parameter; returns its name."""
        name = self._next("f")
        self._lines += [f"def {name}({parameter}):", *(f"    {line}" for line in body)]
        return name

    def compile(self, name: str) -> Reader:
        """Compile all functions; returns one of them."""
        exec(compile("\n".join(self._lines), "<compiled selection>", "exec"), self._scope)
        reader: Reader = self._scope[name]
        return reader

    def _next(self, kind: str) -> str:
        self._count += 1
        return f"{kind}{self._count}"


class Uncompilable(Exception):
    """A selection contains more than attribute reads."""


class ResponseEntry(Struct, frozen=True, kw_only=True):
    """One entry of a response: a constant, or an attribute of the object."""

    key: str
    attribute: str | None
    """None: the name of the object's type."""
    type: GraphQLOutputType | None
    details: list[FieldDetails]


def reads(executor: Executor[Any], parent: GraphQLObjectType, details: list[FieldDetails]) -> Iterator[ResponseEntry]:
    """What is read of an object, in response order. The executor's variables decide @skip and @include.

    Raises:
        Uncompilable: a field has a resolver, arguments, or an unknown directive.
    """
    collected = collect_subfields(
        executor.schema,
        executor.fragments,
        executor.variable_values,
        executor.operation,
        parent,
        details,
        executor.hide_suggestions,
    )
    if collected.new_defer_usages:
        raise Uncompilable
    for key, fields in collected.grouped_field_set.items():
        if not all(_is_plain(field) for field in fields):
            raise Uncompilable
        yield _read(executor, parent, key, fields)


def _is_plain(field: FieldDetails) -> bool:
    directives = {directive.name.value for directive in field.node.directives or ()}
    return field.defer_usage is None and field.fragment_variable_values is None and directives <= CONDITIONS


def _read(executor: Executor[Any], parent: GraphQLObjectType, key: str, details: list[FieldDetails]) -> ResponseEntry:
    name = details[0].node.name.value
    if name == "__typename":
        return ResponseEntry(key=key, attribute=None, type=None, details=details)
    field = executor.schema.get_field(parent, name)
    definition = field.extensions.get("strawberry-definition") if field is not None else None
    if field is None or field.args or not getattr(field.resolve, "_is_default", False):
        raise Uncompilable
    if not isinstance(definition, StrawberryField) or not _is_attribute(definition):
        raise Uncompilable
    return ResponseEntry(key=key, attribute=definition.python_name, type=field.type, details=details)


def _is_attribute(definition: StrawberryField) -> bool:
    return (
        definition.is_basic_field
        and definition.default_resolver is getattr
        and type(definition).get_result is StrawberryField.get_result
        and definition.python_name.isidentifier()
        and not iskeyword(definition.python_name)
    )


class Fallback(Exception):
    """The value is not what an attribute read usually gives. Raised only within compiled functions."""


def fall_back() -> Any:
    """Raise `Fallback` inside an expression."""
    raise Fallback


def check_plain(value: object) -> None:
    """Raise `Fallback` for values that graphql-core does not treat as objects: None, exceptions and awaitables."""
    if is_special(value):
        raise Fallback
    PLAIN.add(type(value))


def is_special(value: object) -> bool:
    """Whether graphql-core treats this value specially instead of completing it."""
    return value is None or value is Undefined or isinstance(value, Exception) or optimized_is_awaitable(value)


def leaf_expression(leaf: GraphQLLeafType, variable: str, *, is_required: bool, text: FunctionText) -> str:
    """The expression that completes a leaf in a variable."""
    coerced = f"{text.constant(_careful(leaf.coerce_output_value))}({variable})"
    unchanged = _UNCHANGED.get(leaf.coerce_output_value)
    if unchanged is not None:
        condition = unchanged.format(variable)
        return f"({variable} if {condition}{'' if is_required else f' or {variable} is None'} else {coerced})"
    usual = _usual(leaf, variable, text)
    whole = coerced if usual is None else f"{usual} else {coerced}"
    return f"({whole})" if is_required else f"(None if {variable} is None else {whole})"


def _usual(leaf: GraphQLLeafType, variable: str, text: FunctionText) -> str | None:
    """The expression for a value of the expected class, like `table[v] if v.__class__ is X`."""
    if isinstance(leaf, CustomGraphQLEnumType):
        members: list[Enum] = list(leaf.wrapped_cls)
        names = {member: leaf.coerce_output_value(member) for member in members}
        return f"{text.constant(names)}[{variable}] if type({variable}) is {text.constant(leaf.wrapped_cls)}"
    if isinstance(leaf, GraphQLEnumType) or leaf.coerce_output_value not in _WRITTEN:
        return None
    usual, write = _WRITTEN[leaf.coerce_output_value]
    return f"{text.constant(write)}({variable}) if type({variable}) is {text.constant(usual)}"


def _careful(coerce: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def careful(value: Any) -> Any:
        if is_special(value):
            raise Fallback
        coerced = coerce(value)
        if is_special(coerced):
            raise Fallback
        return coerced

    return careful


class FieldInfo(Struct, frozen=True, kw_only=True):
    """The part of `GraphQLResolveInfo` that type resolution needs. Any other access fails, and graphql-core takes
    over."""

    field_name: str
    schema: GraphQLSchema
    is_awaitable: Callable[[Any], bool]

    @classmethod
    def of(cls, executor: Executor[Any], details: list[FieldDetails]) -> Self:
        """The info of a field."""
        return cls(field_name=details[0].node.name.value, schema=executor.schema, is_awaitable=executor.is_awaitable)


class TooLarge(Uncompilable):
    """The selection has too many fields."""


def compiled(executor: Executor[Any], type_: GraphQLOutputType, details: list[FieldDetails]) -> Reader:
    """Compile the selection of a value that is not null.

    Raises:
        Uncompilable: it contains more than attribute reads, or is too large.
    """
    compiler = _Compiler(executor)
    body = [f"return {compiler.expression(type_, 'v', details, is_required=True)}"]
    return compiler.text.compile(compiler.text.function("v", body))


class _Compiler:
    def __init__(self, executor: Executor[Any]) -> None:
        self.text = FunctionText()
        self._executor = executor
        self._fields = 0
        self._names = {value: self.text.constant(value) for value in (Fallback, check_plain, fall_back)}
        self._plain = self.text.constant(PLAIN)
        self._known: dict[tuple[str, tuple[int, ...]], str] = {}

    def expression(
        self, type_: GraphQLOutputType, variable: str, details: list[FieldDetails], *, is_required: bool = False
    ) -> str:
        """The expression that completes a variable."""
        if isinstance(type_, GraphQLNonNull):
            return self.expression(type_.of_type, variable, details, is_required=True)
        if is_leaf_type(type_):
            return leaf_expression(type_, variable, is_required=is_required, text=self.text)
        # A generated function rejects None itself, so a required value needs no check here.
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
            f"if type(v) is not tuple and type(v) is not list: raise {self._names[Fallback]}",
            f"return [{self.expression(type_.of_type, 'x', details)} for x in v]",
        ]
        return self.text.function("v", body)

    def _object(self, type_: GraphQLObjectType, details: list[FieldDetails]) -> str:
        body = [self._plain_check()]
        if type_.is_type_of is not None:
            info = self.text.constant(FieldInfo.of(self._executor, details))
            body.append(f"if {self.text.constant(type_.is_type_of)}(o, {info}) is not True: {self._fallback()}")
        entries = []
        for number, read in enumerate(reads(self._executor, type_, details)):
            self._count()
            if read.attribute is not None:
                body.append(f"v{number} = o.{read.attribute}")
            entries.append(f"{read.key!r}: {self._entry(read, f'v{number}', type_)}")
        return self.text.function("o", [*body, f"return {{{', '.join(entries)}}}"])

    def _entry(self, read: ResponseEntry, variable: str, parent: GraphQLObjectType) -> str:
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
        info = self.text.constant(FieldInfo.of(self._executor, details))
        name = f"{resolve}(o, {info}, {self.text.constant(type_)})"
        return self.text.function("o", [self._plain_check(), f"return {self.text.table(readers)}[{name}](o)"])

    def _plain_check(self) -> str:
        return f"if type(o) not in {self._plain}: {self._names[check_plain]}(o)"

    def _fallback(self) -> str:
        return f"{self._names[fall_back]}()"

    def _count(self) -> None:
        self._fields += 1
        if self._fields > FIELDS_MAX:
            raise TooLarge
