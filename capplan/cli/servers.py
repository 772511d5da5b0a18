"""Commands that open the notebooks: with code for the analyst, without it for everybody else."""

from typing import Annotated

import typer

from capplan.cli.shared import BookFolder, app, say


@app.command()
def lab(
    book: BookFolder,
    more: Annotated[
        list[str] | None, typer.Argument(metavar="[-- ARGUMENTS]", help="For JupyterLab, such as --allow-root --no-browser --ip=0.0.0.0.")
    ] = None,
    port: Annotated[int, typer.Option(help="Port of the notebook server.")] = 8888,
) -> None:
    """Open the notebooks on BOOK in JupyterLab."""
    from capplan.outputs.run.open_lab import open_lab

    open_lab(book, port, more or (), say)


@app.command("app")
def dashboard(
    book: BookFolder,
    more: Annotated[
        list[str] | None, typer.Argument(metavar="[-- ARGUMENTS]", help="For the server (Voila), such as --Voila.ip=0.0.0.0.")
    ] = None,
    port: Annotated[int, typer.Option(help="Port of the server.")] = 8866,
    base_url: Annotated[str, typer.Option("--base-url", metavar="PATH", help="Path behind a proxy, such as /plans/.")] = "/",
) -> None:
    """Serve the same views of BOOK without code, for people with a browser and the token (JUPYTER_TOKEN, or a new one)."""
    from capplan.outputs.run.dashboard import open_dashboard

    open_dashboard(book, port, base_url, more or (), say)
