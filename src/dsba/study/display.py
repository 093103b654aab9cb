"""What the people at a site see: who is connected, who is waited for, how far the run is, what it carries."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from dsba.engine.progress import LINE_EVERY, Bar
from dsba.network.tls.site_network import SiteNetwork


class StudyDisplay(Bar):
    """Sentences as lines; on a terminal the state of the run stays below them and is renewed."""

    def __init__(self, terminal: bool) -> None:
        from rich.console import Console

        self.console = Console(highlight=False, soft_wrap=True)
        self.shown_at = 0.0
        self.bar = self.console.status("starting") if terminal else None

    def notify(self, sentence: str) -> None:
        plain = "".join(c if c.isprintable() or c == "\n" else " " for c in sentence)  # some come from other sites
        self.console.print(plain, markup=False)

    def show(self, network: SiteNetwork) -> Sequence[Callable[[dict[str, float]], None]]:
        """The engine's callbacks that keep the display up to date."""

        def progress(record: dict[str, float]) -> None:
            text = f"{record['passes']:.0f} passes, residual {record['residual']:.1e}, {state_of(network)}"
            if self.bar is not None:
                self.bar.update(text)
            elif time.monotonic() - self.shown_at >= LINE_EVERY:
                self.shown_at = time.monotonic()
                self.notify(text)

        return [progress]


def state_of(network: SiteNetwork) -> str:
    """Who is connected, and what was carried."""
    from rich.filesize import decimal

    links = {link: link.connection for link in network.links.values()}
    parts = [f"{network.rounds} rounds", decimal(sum(link.sent_bytes + link.received_bytes for link in links))]
    if delays := [line.latency for line in links.values() if line is not None and line.latency]:
        parts.append(f"round trip {1e3 * max(delays):.0f} ms")
    parts.append(f"connected: {', '.join(link.name for link, line in links.items() if line is not None) or 'nobody'}")
    if absent := [link.name for link, line in links.items() if line is None]:
        parts.append(f"waiting for: {', '.join(absent)}")
    return ", ".join(parts)
