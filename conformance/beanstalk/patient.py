"""For pytest: a server that a test has started is waited for until it takes connections, whatever the test says about that."""

import socket
import subprocess
import time

# How long a server may take.
START_MAX = 30


class Popen(subprocess.Popen):
    def __init__(self, args, **options):
        super().__init__(args, **options)
        given = dict(zip(args[1::2], args[2::2]))
        host = given.get("-l", "127.0.0.1")
        until = time.monotonic() + START_MAX
        while time.monotonic() < until and self.poll() is None:
            is_path = host.startswith("unix:")
            with socket.socket(socket.AF_UNIX if is_path else socket.AF_INET) as probe:
                try:
                    probe.connect(host[len("unix:"):] if is_path else (host, int(given["-p"])))
                    return
                except OSError:
                    time.sleep(0.02)


subprocess.Popen = Popen
