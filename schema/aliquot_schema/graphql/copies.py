"""A copy of the database of a running server."""

from typing import Final

import strawberry
from graphql import GraphQLResolveInfo
from strawberry.types import Info

from aliquot_schema.doctor_views import DatabaseCopy
from aliquot_schema.graphql import errors
from aliquot_schema.graphql.answers import ALWAYS, answer, union
from aliquot_schema.graphql.context import Context
from aliquot_schema.graphql.roots import root_field
from aliquot_schema.graphql.scalars import BigInt


@strawberry.type(description="The copy is there.")
class CopyDatabaseSuccess:
    path: str = strawberry.field(description="The file, on the server's machine.")
    size_bytes: BigInt = strawberry.field(description="Its size.")

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, DatabaseCopy)


CopyDatabaseResult: Final = union("CopyDatabaseResult", CopyDatabaseSuccess, *ALWAYS)


@strawberry.type
class CopyMutations:
    @root_field(
        CopyDatabaseResult,
        "Copy the server's SQLite database, as it is now, to a new file beside it. For operators.",
    )
    async def copy_database(self, info: Info[Context, None]) -> DatabaseCopy | errors.Error:
        return await answer(info.context.admin.copy_database(info.context.caller), ALWAYS)
