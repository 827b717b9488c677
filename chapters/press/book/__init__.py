"""The book: find its chapters, execute them, check what they claim, make the site."""
