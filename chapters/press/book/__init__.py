"""The book: find its chapters, execute them, check their claims, make the site."""
