"""What people follow as it happens."""
