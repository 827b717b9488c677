"""The site: executed chapters and records, laid out as pages, built by Sphinx, printed."""
