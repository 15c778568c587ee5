"""What the operating system says: processes, signals and small files, where a queue has its folder, and a terminal."""
