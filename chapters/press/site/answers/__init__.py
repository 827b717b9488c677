"""What checks an answer in the page: a stand-in for torch, and what runs a reader's text on it."""
