"""Interfaces to the operating system: processes, signals, small files, the folder of a queue, and the terminal."""
