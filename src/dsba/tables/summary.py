"""The coefficients of a fit as a table for terminals and notebooks."""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dsba.tables.exports import figures

if TYPE_CHECKING:
    from rich.console import Group

    from dsba.tables.results import Results

P_VALUES = ("P>|t|", "P>|z|")  # columns of a summary
NAME_WIDTH = 40  # of a column in a terminal; a longer name goes on in the next line


@dataclass(frozen=True)
class Summary:
    """The table of a fit, for terminals and notebooks."""

    results: Results

    def __rich__(self) -> Group:
        """The headline above the table, which is as wide as it must be: nothing is cut on a narrow terminal."""
        from rich.box import SIMPLE_HEAD
        from rich.console import Console, Group
        from rich.table import Table
        from rich.text import Text

        frame = self.results.to_frame()
        table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
        table.add_column("", overflow="fold", max_width=NAME_WIDTH)
        for name in frame.columns:
            table.add_column(Text(str(name)), justify="right", no_wrap=True)
        for name, row in frame.iterrows():
            table.add_row(Text(str(name)), *(cell(str(column), value) for column, value in row.items()))
        table.width = Console(width=1000).measure(table).maximum
        return Group(Text(self.results.headline()), table)

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(width=100, no_color=True)
        with console.capture() as captured:
            console.print(self, crop=False)
        return captured.get()

    def _repr_html_(self) -> str:
        table = self.results.to_frame().to_html(float_format=figures)
        return f"<p>{html.escape(self.results.headline())}</p>{table}"


def cell(column: str, value: float, written: Callable[[float], str] = figures) -> str:
    """A number of a column of the table; a tiny p-value says no more than that it is tiny."""
    if column in P_VALUES:
        return "<0.001" if value < 0.001 else f"{value:.3f}"
    return written(value)
