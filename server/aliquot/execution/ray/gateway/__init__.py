"""The gateway: a process of the server's own that is a Ray driver, and the only importer of Ray on the server's side.

Ray ends its drivers when its control store stays away for a minute; that must end this process, not the server.
"""
