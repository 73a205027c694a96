"""Device plugins: what turns hardware, or a file that describes some, into devices."""
