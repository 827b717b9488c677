"""The verbs of the command `labkit`: one file a group, each with an `app` of typer's."""
