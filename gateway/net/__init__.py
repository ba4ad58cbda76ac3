"""Listening sockets and TLS."""
