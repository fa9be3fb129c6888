"""Sockets: listeners, connections, and how stored bytes reach a client."""
