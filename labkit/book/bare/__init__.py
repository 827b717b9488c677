"""Stand-ins for two small packages, for a GPU server that has torch and numpy and no network.

This folder comes last on the path of `labkit book runs`: the real ones win where they are.
"""
