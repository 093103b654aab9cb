"""What the people at a site see: who is connected, who is waited for, how far the run is, what it carries."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from dsba.engine.progress import LINE_EVERY
from dsba.network.tls.site_network import SiteNetwork


class StudyDisplay:
    """Sentences as lines; on a terminal the state of the run stays below them and is renewed."""

    def __init__(self, terminal: bool) -> None:
        from rich.console import Console

        self.console = Console(highlight=False, soft_wrap=True)
        self.shown_at = 0.0
        self.status: Any = self.console.status("starting") if terminal else None

    def __enter__(self) -> StudyDisplay:
        if self.status is not None:
            self.status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.status is not None:
            self.status.stop()

    def tell(self, sentence: str) -> None:
        self.console.print(sentence, markup=False)

    def show(self, network: SiteNetwork) -> Sequence[Callable[[dict[str, float]], None]]:
        """The engine's callbacks that keep the display up to date."""

        def progress(record: dict[str, float]) -> None:
            text = f"{record['passes']:.0f} passes, residual {record['residual']:.1e}, {state_of(network)}"
            if self.status is not None:
                self.status.update(text)
            elif time.monotonic() - self.shown_at >= LINE_EVERY:
                self.shown_at = time.monotonic()
                self.tell(text)

        return [progress]


def state_of(network: SiteNetwork) -> str:
    """Who is connected, and what was carried."""
    links = network.links.values()
    names = {True: [], False: []}  # type: dict[bool, list[str]]
    delays = []
    for link in links:
        connection = link.connection
        names[connection is not None].append(link.name)
        if connection is not None and connection.latency:
            delays.append(connection.latency)
    parts = [f"{network.rounds} rounds", _size(sum(link.sent_bytes + link.received_bytes for link in links))]
    if delays:
        parts.append(f"round trip {1e3 * max(delays):.0f} ms")
    parts.append(f"connected: {', '.join(names[True]) or 'nobody'}")
    if names[False]:
        parts.append(f"waiting for: {', '.join(names[False])}")
    return ", ".join(parts)


def _size(count: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError
