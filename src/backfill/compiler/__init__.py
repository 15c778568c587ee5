"""All that touches the compiler: records that compiled code and Python share, kernels, the cache of both on disk."""
