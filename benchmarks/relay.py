"""A relay that delays what passes: a line of a given latency between two ends of this machine, which can be cut."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Any


class Relay:
    """Passes on connections from ``port`` to ``target`` on loopback, everything ``delay`` seconds later, both ways."""

    def __init__(self, target: int, delay: float = 0.0) -> None:
        self.target, self.delay = target, delay
        with socket.create_server(("127.0.0.1", 0)) as found:
            self.port = found.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Relay:
        self._thread.start()
        self._ready.wait(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    def cut(self) -> None:
        """Nothing passes any more; what comes is kept."""
        self._loop.call_soon_threadsafe(self._whole.clear)

    def mend(self) -> None:
        self._loop.call_soon_threadsafe(self._whole.set)

    def _run(self) -> None:
        with suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._end, self._whole = asyncio.Event(), asyncio.Event()
        self._whole.set()
        server = await asyncio.start_server(self._pass, "127.0.0.1", self.port)
        self._ready.set()
        await self._end.wait()
        server.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.close()
            return
        for one in (writer, far_writer):
            one.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with suppress(asyncio.CancelledError):
            await asyncio.gather(self._carry(reader, far_writer), self._carry(far_reader, writer))

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        kept: asyncio.Queue[Any] = asyncio.Queue()
        sending = asyncio.create_task(self._send(kept, writer))
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                kept.put_nowait((time.monotonic() + self.delay, data))
        kept.put_nowait((time.monotonic() + self.delay, None))
        await sending

    async def _send(self, kept: asyncio.Queue[Any], writer: asyncio.StreamWriter) -> None:
        data = b""
        while data is not None:
            due, data = await kept.get()
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            await self._whole.wait()
            with suppress(OSError):
                if data is None:
                    writer.close()
                else:
                    writer.write(data)
