"""In the processes that tests/test_systems.py starts: what Python does not have on Windows is not there."""

import os
import signal
import socket
import sys

for module in ("fcntl", "grp", "pwd", "resource", "termios", "tty", "pty"):
    sys.modules[module] = None
for home, names in {
    os: "fork register_at_fork getpgid killpg setsid pidfd_open",
    signal: "SIGHUP SIGKILL SIGALRM SIGCHLD pthread_sigmask",
    socket: "AF_UNIX",
}.items():
    for name in names.split():
        if hasattr(home, name):
            delattr(home, name)
