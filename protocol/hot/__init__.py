"""Hand-written codecs of the two messages that carry the data; tested equal to the compiled
ones."""
