"""Steps of a process over storage, one lane an actor, with the snapshots they publish."""
