"""`aliquot session`: submit sessions, look at them, follow and change them."""
