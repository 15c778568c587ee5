"""What the operating system says: processes, signals and small files, and where a queue has its folder."""
