"""Ray gateway: a Ray driver in a child process of the server, the only importer of Ray on the server's side.

Ray terminates its drivers when its control store is away for a minute; that must end this process, not the server.
"""
