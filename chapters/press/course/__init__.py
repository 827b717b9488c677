"""The course server: JupyterHub with private homes, limits and shares, and what it needs."""
