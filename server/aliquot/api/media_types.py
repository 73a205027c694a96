"""Media types: which one an answer has, by what the caller accepts.

Source: GraphQL over HTTP, media types; RFC 9110, 12.5.1.
"""

from typing import Final

RESPONSE: Final = "application/graphql-response+json"
JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"

_ANSWERS: Final = {
    RESPONSE: RESPONSE,
    EVENTS: EVENTS,
    JSON: JSON,
    "application/*": JSON,
    "*/*": JSON,
}


def negotiated(accept: str | None) -> str | None:
    """The media type to answer with; None when the caller accepts none that we have.

    Without an Accept header it is plain JSON. Of equally welcome ones the more telling wins.
    """
    if not accept:
        return JSON
    welcome: dict[str, float] = {}
    for part in accept.split(","):
        name, _, parameters = part.strip().lower().partition(";")
        answer = _ANSWERS.get(name.strip())
        if answer is not None:
            welcome[answer] = max(welcome.get(answer, 0.0), _quality(parameters))
    best = max((RESPONSE, EVENTS, JSON), key=lambda name: welcome.get(name, 0.0))
    return best if welcome.get(best, 0.0) > 0 else None


def is_json(content_type: str | None) -> bool:
    """Whether a body's content type is JSON in UTF-8, which is what it means when it does not say."""
    name, _, parameters = (content_type or "").lower().partition(";")
    charset = _parameter(parameters, "charset")
    return name.strip() == JSON and charset in (None, "utf-8", "utf8")


def _quality(parameters: str) -> float:
    try:
        return float(_parameter(parameters, "q") or 1.0)
    except ValueError:
        return 0.0


def _parameter(parameters: str, name: str) -> str | None:
    for parameter in parameters.split(";"):
        key, _, value = parameter.partition("=")
        if key.strip() == name:
            return value.strip().strip('"')
    return None
