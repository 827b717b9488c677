"""A progress bar that shows nothing."""
