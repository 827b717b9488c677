"""`labkit gpu`: pack a folder for a machine with a GPU, and take in what came back."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Typer

app = Typer(name="gpu")


@app.callback()
def gpu() -> None:
    """Prepare an hour on a GPU, and record what came back."""


@app.command("pack")
def pack() -> None:
    """Write build/gpu: code, records and wheels for a machine without a network."""
    from labkit.system.units import in_words
    from press.book.chapters import find_root
    from press.book.gpu import pack_folder

    packed = pack_folder(find_root())
    folder = packed["folder"]
    print(f"{folder}: {in_words(packed['bytes'])}, commit {packed['commit']}, wheels:")
    print(f"  {', '.join(packed['wheels']) or 'none'}")
    print("1. there, in this folder, as often as it says so (a slice takes nine minutes):")
    print("     python3 gpu_hour.py")
    print("2. here, with the file that it names:")
    print("     labkit gpu take gpu-hour-DEVICE.tar.gz")


@app.command("take")
def take(file: Annotated[Path, Argument(metavar="gpu-hour-DEVICE.tar.gz")]) -> None:
    """Record what an hour on a GPU measured and trained."""
    from labkit.plots.kernels import publish_report
    from press.book.chapters import find_root
    from press.book.gpu import take_archive

    root = find_root()
    taken = take_archive(root, file)
    more = f", {taken.left_out} that the ladder does not ask for left out" if taken.left_out else ""
    print(f"{taken.device}: {taken.runs} runs into data/records{more}")
    for path in taken.files:
        print(f"  {path.relative_to(root)}")
    try:
        print(publish_report(taken.kernels) if taken.kernels else "no kernel was measured")
    except ValueError as error:
        print(error)
    print("`make book` replays the runs on this machine and says what changed")
