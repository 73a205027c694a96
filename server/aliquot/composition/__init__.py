"""Composition: what the root joins in more than one way, for a server that is alone and for one of several."""
