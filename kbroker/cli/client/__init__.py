"""A small blocking Kafka client on plain sockets, for the command line.

It speaks through the broker's own codec, so the commands need no other library, start quickly, and
work with any broker of Kafka's protocol, Apache Kafka included.
"""
