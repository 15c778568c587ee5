"""Everything that touches the compiler: records shared by compiled code and Python, kernels, and their disk cache."""
