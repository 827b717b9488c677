"""The leaderboard: recipes ranked by the ladder's rules, and what the ranking can say.

letters.py    compact letters: two that share one were not told apart
footprint.py  what a step costs: operations, bytes kept for the backward pass
entries.py    what takes part: an arm of the ladder, or a recipe with a norm of your own
compete.py    trains what an entry lacks, on any engine; or takes a look, which gives no order
standings.py  from runs to ranks, intervals and letters
starter.py    a norm to begin with, for a file of your own
explorer.py   what the ladder recorded of each recipe, as the block explorer's data
show_explorer.py   the block explorer in a chapter

`labkit leaderboard` is the command, chapter 10 the text.
"""
