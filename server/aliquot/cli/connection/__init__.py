"""What commands that ask a running server share: which one, how it is told, and how they end."""
