"""Questions to the runs that are stored.

frame.py      all runs as one table of pandas: choose, show, compare, write out
garbage.py    remove what no run asks for again
reproduce.py  train a stored run again and compare the numbers
"""
