"""Ctrl-C while TensorFlow waits for a collective.

TensorFlow waits outside of Python, where no Python signal handler runs. A signal wakes a thread
that ends the wait. Then Python's handler runs and raises KeyboardInterrupt.
"""

from __future__ import annotations

import functools
import signal
import socket
import threading
from collections.abc import Callable
from typing import Any


def install(interrupt: Callable[[], object]) -> None:
    """Makes SIGINT call `interrupt`, if SIGINT raises KeyboardInterrupt.

    Does nothing if another part of the program uses the signal wake-up descriptor, or outside of
    the main thread: Ctrl-C then takes effect once the collective has ended.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    awake, waker = socket.socketpair()
    waker.setblocking(False)
    before = signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
    if before != -1:
        signal.set_wakeup_fd(before)
        return
    # The thread keeps `waker` too: closing it would make every signal an error.
    arguments = (awake, waker, interrupt)
    name = "ronde-interrupt"
    threading.Thread(target=_watch, args=arguments, name=name, daemon=True).start()


def _watch(awake: socket.socket, _waker: socket.socket, interrupt: Callable[[], object]) -> None:
    while signals := awake.recv(64):
        raises = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if signal.SIGINT in signals and raises:
            interrupt()


def interruptible(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a function that waits in TensorFlow, so that it raises KeyboardInterrupt.

    Python's handler runs while TensorFlow makes its own exception, which hides KeyboardInterrupt.
    """

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except RuntimeError as error:
            if type(error) is RuntimeError and "REPLACED BY KeyboardInterrupt" in str(error):
                raise KeyboardInterrupt from None
            raise

    return call
