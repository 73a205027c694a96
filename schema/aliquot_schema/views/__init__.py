"""Read models: what GraphQL, REST and the command line show."""
