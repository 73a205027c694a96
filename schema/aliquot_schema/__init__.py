"""Domain types shared by server, agents and clients. Only `graphql` needs more than the standard library."""
