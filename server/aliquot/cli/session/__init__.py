"""`aliquot session`: submits, shows, follows and changes sessions."""
