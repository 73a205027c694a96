"""Leadership: of several servers on one database, one schedules and launches; all of them follow the event log."""
