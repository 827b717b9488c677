"""Check answers in the page: a stand-in for torch, and a runner of readers' code."""
