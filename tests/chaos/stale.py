"""A task that outlives its try: it runs in a thread, stands still at a step, and goes on when it is told to.

Invariant: the thread runs only within `begin` and `finish`, while the caller waits. So a run with stale tasks is as
deterministic as one without.
What the task raises is kept in `error` and goes nowhere: nobody listens to a task whose driver is dead.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any


class StaleTask(threading.Thread):
    """One execution of an instance. `stop` is the step at which it stands still; "start": before it does anything."""

    def __init__(self, run: Callable[[], Iterator[Any]], stop: str) -> None:
        super().__init__(daemon=True)
        self._task, self._stop_at = run, stop
        self._standing, self._go = threading.Event(), threading.Event()
        self.error: BaseException | None = None

    def begin(self) -> None:
        """Run the task up to its step."""
        self.start()
        self._standing.wait()

    def finish(self) -> None:
        """Let the task go on to its end."""
        self._go.set()
        self.join()

    def run(self) -> None:
        try:
            self.reached("start")
            for _ in self._task():
                pass
        except BaseException as error:
            self.error = error
        finally:
            self._standing.set()

    def reached(self, step: str) -> None:
        """To be called in the task at each of its steps."""
        if step == self._stop_at and not self._go.is_set():
            self._standing.set()
            self._go.wait()


def current() -> StaleTask | None:
    """The stale task that this thread is."""
    thread = threading.current_thread()
    return thread if isinstance(thread, StaleTask) else None
