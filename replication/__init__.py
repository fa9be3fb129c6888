"""Masters and slaves: empty until replication is built; the folder keeps its place in the
layout."""
