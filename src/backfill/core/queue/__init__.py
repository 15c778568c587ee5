"""The waiting jobs: their orders, their places, and the walk over them."""
