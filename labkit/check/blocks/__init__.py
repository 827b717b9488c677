"""Check somebody's block of a recipe: its two halves, its norms, its constants."""
