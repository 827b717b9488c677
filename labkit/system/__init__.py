"""What the rest stands on and knows nothing of norms: files, locks, processors, limits, words."""
