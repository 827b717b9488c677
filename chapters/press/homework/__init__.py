"""Homework: released from one source, graded without trust, exported where scores are kept."""
