"""Logs on disk, kept as MetaQ keeps them: folders of segments whose last one is writable."""
