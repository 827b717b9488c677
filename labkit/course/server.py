"""A user's server, as a program: JupyterHub's own, without the second for a grammar of addresses.

A class logs in at once; see labkit/book/notebooks.py.
"""

from labkit.book.notebooks import nbformat as nbformat  # before all that imports it

if __name__ == "__main__":
    from jupyterhub.singleuser import main

    main()
