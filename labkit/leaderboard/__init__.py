"""The leaderboard: recipes ranked by the rules of the ladder (the shared experiment grid).

letters.py    compact letters: entries that share one are not distinguishable
footprint.py  cost of a step: operations, bytes saved for the backward pass
entries.py    entries: an arm of the ladder, or a recipe with your own norm
compete.py    trains missing runs on any engine; or makes a quick look without a ranking
standings.py  from runs to ranks, intervals and letters
starter.py    a template for your own norm
explorer.py   the ladder's records of each recipe, as the block explorer's data
show_explorer.py   the block explorer in a chapter
voices.py     what models write at some of the losses; the map of recipes and rates

The command is `labkit leaderboard`; chapter 10 explains it.
"""
