"""Sweeps are hurt here: what finished must stay, what is wrong must not count."""
