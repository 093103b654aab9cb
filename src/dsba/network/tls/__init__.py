"""Nodes at institutions that talk over pinned TLS."""
