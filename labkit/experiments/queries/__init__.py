"""Questions to a store: list, show, compare, export, clean up, train again.

entries.py    read a whole store: current, stale, damaged, foreign
fields.py     an entry as one flat row of named values
where.py      filters and sorting over rows
table.py      rows as text: list, show, compare
export.py     rows as CSV or Parquet
garbage.py    remove what no run asks for again
reproduce.py  train a stored run again and compare the numbers
"""
