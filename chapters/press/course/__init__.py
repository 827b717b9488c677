"""The course server: JupyterHub with private homes, limits and GPU shares."""
