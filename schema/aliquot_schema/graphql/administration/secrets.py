"""GraphQL API of secrets. Values can be set and deleted, never read."""

from datetime import datetime
from typing import Annotated, Final

import strawberry
from graphql import GraphQLResolveInfo
from strawberry.types import Info

from aliquot_schema.graphql import errors
from aliquot_schema.graphql.context import Context
from aliquot_schema.graphql.errors import ALWAYS, answer, union
from aliquot_schema.graphql.fields import argument, root_field
from aliquot_schema.identity.secrets import SecretChanged, SecretDeleted, SecretView

_ON_DELETE: Final = (*ALWAYS, errors.NotFound)


@strawberry.type(description="A secret of the caller, without its value. Values are never shown.")
class Secret:
    name: str = strawberry.field(description="Name of the secret.")
    created_at: datetime = strawberry.field(description="When it was created.")
    changed_at: datetime = strawberry.field(description="When its value was last set.")


@strawberry.type(description="The secret was stored. Sessions that start from now on receive this value.")
class SetSecretSuccess:
    secret: Secret = strawberry.field(description="The secret.")

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, SecretChanged)


@strawberry.type(description="The secret was deleted. Sessions that use it can no longer start.")
class DeleteSecretSuccess:
    name: str = strawberry.field(description="Name of the secret.")

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, SecretDeleted)


SetSecretResult = union("SetSecretResult", SetSecretSuccess, *ALWAYS)
DeleteSecretResult = union("DeleteSecretResult", DeleteSecretSuccess, *_ON_DELETE)


@strawberry.type
class SecretQueries:
    """Part of `Query`."""

    @root_field(list[Secret], "The caller's secrets by name, without their values.")
    async def secrets(self, info: Info[Context, None]) -> tuple[SecretView, ...]:
        return await info.context.services.accounts.secrets(info.context.caller)


@strawberry.type
class SecretMutations:
    """Part of `Mutation`."""

    @root_field(SetSecretResult, "Store a secret of the caller for use in sessions; replaces one of the same name.")
    async def set_secret(
        self,
        info: Info[Context, None],
        name: Annotated[str, argument("1 to 64 letters, digits, `_`, `.` and `-`; the first a letter or `_`.")],
        value: Annotated[str, argument("At most 32 KiB. Pass it as a GraphQL variable, not in the text of the query.")],
    ) -> SecretChanged | errors.Error:
        return await answer(info.context.services.accounts.set_secret(info.context.caller, name, value), ALWAYS)

    @root_field(DeleteSecretResult, "Delete a secret of the caller.")
    async def delete_secret(
        self, info: Info[Context, None], name: Annotated[str, argument("Name of the secret.")]
    ) -> SecretDeleted | errors.Error:
        return await answer(info.context.services.accounts.delete_secret(info.context.caller, name), _ON_DELETE)
