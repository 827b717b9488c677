"""The commands of `labkit`: one file per group, each with a typer `app`."""
