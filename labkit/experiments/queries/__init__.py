"""Questions to the runs that are stored.

frame.py      all runs as one table of pandas: choose, show, write out
garbage.py    remove what killed processes left
reproduce.py  train a stored run again and compare the numbers
"""
