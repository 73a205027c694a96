"""OpenID Connect: people come in by tokens of an identity provider."""
