"""The leaderboard: recipes ranked under one budget of arithmetic, and what the ranking can say.

letters.py    compact letters: two that share one were not told apart
footprint.py  what a step costs: operations, bytes kept for the backward pass
entries.py    what takes part: a recipe, with a norm of labkit's or of your own
contest.py    the task, the budget, the runs of each entry
compete.py    both halves of it, on any engine
standings.py  from runs to ranks, paired intervals and letters
starter.py    a norm to begin with, for a file of your own

`labkit leaderboard` is the command, chapter 10 the text.
"""
