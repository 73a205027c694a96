"""GraphQL API of session templates, which members of a project share."""

from datetime import datetime
from typing import Annotated, Final

import strawberry
from graphql import GraphQLResolveInfo
from strawberry.types import Info

from aliquot_schema.errors import Unavailable
from aliquot_schema.graphql import errors
from aliquot_schema.graphql.context import Context, TemplatesPort
from aliquot_schema.graphql.errors import ALWAYS, answer, union
from aliquot_schema.graphql.fields import argument, root_field
from aliquot_schema.graphql.scalars import BigInt
from aliquot_schema.views.templates import SessionTemplateView, TemplateDeleted, TemplateSaved

_ON_DELETE: Final = (*ALWAYS, errors.NotFound)


@strawberry.type(description="A parameter of a template: `{{name}}` or `{{name=default}}` in one of its texts.")
class TemplateParameter:
    name: str = strawberry.field(description="Its name.")
    default: str | None = strawberry.field(description="Its default; null = a value must be given.")


@strawberry.type(description="A filled-in submit form that a project shares, or that is personal.")
class SessionTemplate:
    project: str = strawberry.field(
        description="The project; its members see the template. Empty = a personal one, which only its owner sees."
    )
    name: str = strawberry.field(description="Its name, unique in the project.")
    fields: str = strawberry.field(
        description="JSON object: the fields of the dashboard's submit form that differ from an empty form."
    )
    author: str = strawberry.field(description="Who saved it first. Besides operators, only its author may change it.")
    saved_by: str = strawberry.field(description="Who saved it last.")
    saved_at: datetime = strawberry.field(description="When it was saved last.")
    parameters: list[TemplateParameter] = strawberry.field(description="Its parameters.")


@strawberry.type(description="The template was saved.")
class SaveSessionTemplateSuccess:
    template: SessionTemplate = strawberry.field(description="The template.")
    revision: BigInt = strawberry.field(description="Event number of the change; for `min_revision`.")

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, TemplateSaved)


@strawberry.type(description="The template was deleted.")
class DeleteSessionTemplateSuccess:
    project: str = strawberry.field(description="Its project.")
    name: str = strawberry.field(description="Its name.")
    revision: BigInt = strawberry.field(description="Event number of the change; for `min_revision`.")

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, TemplateDeleted)


SaveSessionTemplateResult = union("SaveSessionTemplateResult", SaveSessionTemplateSuccess, *ALWAYS)
DeleteSessionTemplateResult = union("DeleteSessionTemplateResult", DeleteSessionTemplateSuccess, *_ON_DELETE)


@strawberry.type
class TemplateQueries:
    """Part of `Query`."""

    @root_field(
        list[SessionTemplate],
        "Session templates of the caller and their projects, for operators of all projects; by project and name.",
    )
    async def session_templates(self, info: Info[Context, None]) -> tuple[SessionTemplateView, ...]:
        return _templates(info).templates(info.context.caller)


@strawberry.type
class TemplateMutations:
    """Part of `Mutation`."""

    @root_field(
        SaveSessionTemplateResult,
        "Save a personal session template, or one of a project. One of the same name is replaced, by its author or an "
        "operator.",
    )
    async def save_session_template(
        self,
        info: Info[Context, None],
        project: Annotated[str, argument("A project of the caller, or `default`. Empty = a personal one.")],
        name: Annotated[str, argument("1 to 60 printable characters.")],
        fields: Annotated[str, argument("JSON object of at most 16 KiB. Members read it: it is no place for secrets.")],
    ) -> TemplateSaved | errors.Error:
        saving = _templates(info).save_template(info.context.caller, project, name, fields)
        return await answer(saving, ALWAYS)

    @root_field(DeleteSessionTemplateResult, "Delete a session template; only its author and operators may do that.")
    async def delete_session_template(
        self,
        info: Info[Context, None],
        project: Annotated[str, argument("Its project; empty = a personal one.")],
        name: Annotated[str, argument("Its name.")],
    ) -> TemplateDeleted | errors.Error:
        return await answer(_templates(info).delete_template(info.context.caller, project, name), _ON_DELETE)


def _templates(info: Info[Context, None]) -> TemplatesPort:
    templates = info.context.services.templates
    if templates is None:
        raise Unavailable("this server does not store templates")
    return templates
