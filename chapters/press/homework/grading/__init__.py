"""Grading: collect what students handed in, run it confined, judge the values, tell the scores."""
