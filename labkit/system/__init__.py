"""Base of all rooms, without norms: files, locks, processors, limits, words."""
