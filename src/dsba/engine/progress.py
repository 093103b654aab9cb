"""Progress on a terminal."""

from typing import Any, Self

LINE_EVERY = 2.0  # seconds between lines of progress where there is no terminal


class Bar:
    """A rich progress display for the length of a block; ``bar`` is None where none is wanted."""

    bar: Any = None

    def __enter__(self) -> Self:
        if self.bar is not None:
            self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.bar is not None:
            self.bar.stop()


class Progress(Bar):
    """Passes, gap (or residual), DOUBLEs and elapsed time, on a terminal; silent where not wanted."""

    def __init__(self, wanted: bool, name: str, max_passes: float | None) -> None:
        if wanted:
            from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Display

            columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[figures]}"))
            self.bar = Display(*columns, TimeElapsedColumn())  # the time left is unknown: a run ends at its tolerance
            self.task = self.bar.add_task(name, total=max_passes, figures="starting")

    def update(self, record: dict[str, float]) -> None:
        if self.bar is None:
            return
        metric = "gap" if "gap" in record else "residual"
        figures = f"{record['passes']:.1f} passes  {metric} {record[metric]:.1e}  {record['doubles_max']:.2e} DOUBLEs"
        self.bar.update(self.task, completed=record["passes"], figures=figures)
