"""The press: build the book from its chapters, release and grade homework, serve a course."""
