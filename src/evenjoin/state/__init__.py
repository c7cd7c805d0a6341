"""Stored tuples as immutable, sorted Arrow files, and the manifest that names them."""
