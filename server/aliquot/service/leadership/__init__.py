"""Leadership: of several servers on one database one places, launches and stops; all of them follow the log."""
