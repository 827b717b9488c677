"""The verbs of the command `labkit`: one file a group, each with `add(commands)`."""
