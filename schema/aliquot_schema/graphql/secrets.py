"""Secrets: stored for sessions, and never shown again."""

from datetime import datetime
from typing import Annotated, Final

import strawberry
from graphql import GraphQLResolveInfo
from strawberry.types import Info

from aliquot_schema.graphql import errors
from aliquot_schema.graphql.answers import ALWAYS, answer, union
from aliquot_schema.graphql.context import Context
from aliquot_schema.graphql.descriptions import argument
from aliquot_schema.graphql.roots import root_field
from aliquot_schema.secrets import SecretChanged, SecretDeleted, SecretView

_ON_DELETE: Final = (*ALWAYS, errors.NotFound)


@strawberry.type(description="A secret of yours, without its value, which nobody is shown.")
class Secret:
    name: str = strawberry.field(description="Its name.")
    created_at: datetime = strawberry.field(description="When it was made.")
    changed_at: datetime = strawberry.field(description="When its value was set last.")


@strawberry.type(description="Sessions that start from now on are given this value.")
class SetSecretSuccess:
    secret: Secret = strawberry.field(description="The secret.")

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, SecretChanged)


@strawberry.type(description="The secret is gone; sessions that ask for it are not started any more.")
class DeleteSecretSuccess:
    name: str = strawberry.field(description="Its name.")

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, SecretDeleted)


SetSecretResult = union("SetSecretResult", SetSecretSuccess, *ALWAYS)
DeleteSecretResult = union("DeleteSecretResult", DeleteSecretSuccess, *_ON_DELETE)


@strawberry.type
class SecretQueries:
    """Part of `Query`."""

    @root_field(list[Secret], "Your secrets, by name, without their values.")
    async def secrets(self, info: Info[Context, None]) -> tuple[SecretView, ...]:
        return await info.context.accounts.secrets(info.context.caller)


@strawberry.type
class SecretMutations:
    """Part of `Mutation`."""

    @root_field(SetSecretResult, "Store a secret of yours for sessions, in place of an older one of that name.")
    async def set_secret(
        self,
        info: Info[Context, None],
        name: Annotated[str, argument("Letters, digits, and _ . -; at most 64, the first a letter or _.")],
        value: Annotated[str, argument("At most 32 KiB. Give it as a variable of the query, not in its text.")],
    ) -> SecretChanged | errors.Error:
        return await answer(info.context.accounts.set_secret(info.context.caller, name, value), ALWAYS)

    @root_field(DeleteSecretResult, "Delete a secret of yours.")
    async def delete_secret(
        self, info: Info[Context, None], name: Annotated[str, argument("Its name.")]
    ) -> SecretDeleted | errors.Error:
        return await answer(info.context.accounts.delete_secret(info.context.caller, name), _ON_DELETE)
