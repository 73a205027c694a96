"""The vocabulary of Aliquot: what things are. Standard library alone, but for `graphql`."""
