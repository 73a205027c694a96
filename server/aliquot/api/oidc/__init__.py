"""OpenID Connect: authentication by tokens of an identity provider."""
