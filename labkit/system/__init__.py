"""Base package without norms: files, locks, processors, limits, words."""
