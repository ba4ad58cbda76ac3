"""Talking to the servers behind the gateway."""
