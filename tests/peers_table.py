"""Print the differences between every norm or recipe and its peers: python tests/peers_table.py."""

import peers_norms
import peers_recipes
from peers import show

if __name__ == "__main__":
    print(show(peers_norms.table()), show(peers_recipes.table()), sep="\n\n")
