"""The waiting jobs: their orders, their positions, and the walk over them."""
