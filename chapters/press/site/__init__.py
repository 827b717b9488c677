"""The site: what was executed and recorded, laid out as pages, built by Sphinx, printed."""
