"""Grading: collect submissions, run them confined, compare the values, report the scores."""
