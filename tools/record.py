"""Record the demo of the README, docs/images/demo.gif: python -m tools.record

The commands really run, one after the other, in a fresh queue in a temporary folder; only the typing is drawn. Needs
the extra `plot`, for its font and Pillow.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

OUT = Path(__file__).parents[1] / "docs" / "images" / "demo.gif"
# Commands, and for how long their output stays, in seconds; None: it is not shown. Those of the queue are written for
# two processors.
SCENES = (
    ("backfill compare sample:itp --policy fcfs --policy easy --policy conservative -q | head -8", 4.0),
    ("backfill submit --time 5 --cpus-per-task 2 --job-name train -- sleep 100 | head -1", 0.4),
    ("backfill submit --time 10 --cpus-per-task 2 --job-name big -- sleep 50 | head -1", 1.0),
    ("backfill eta", None),  # which waits until the policy is loaded
    ("backfill queue", 2.5),
    ("backfill eta 2 | head -2", 2.5),
    ("backfill explain 2", 4.0),
)
COLUMNS, ROWS, MARGIN, SIZE = 88, 22, 14, 15  # characters, characters, pixels, pixels of the font
PAPER, INK, SOFT, PROMPT = "#101418", "#e8e8e8", "#9aa4ae", "#56b4e9"
TYPED, TYPE_S, ENTER_S = 7, 0.1, 0.3  # characters in a frame, its time, and the time before the output appears
Screen = list[tuple[str, str]]  # lines: prompt and text


def play() -> list[tuple[str, str, float]]:
    """Run the commands in a queue of their own.

    Returns each that is shown, what it printed, and for how long that stays. Raises CalledProcessError.
    """
    found = []
    with TemporaryDirectory() as folder:
        env = os.environ | {"BACKFILL_HOME": f"{folder}/queue", "COLUMNS": "80", "NO_COLOR": "1"}
        env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
        shell = ["bash", "-c"]
        try:
            for command, hold in SCENES:
                done = subprocess.run(
                    [*shell, command], cwd=folder, env=env, capture_output=True, text=True, check=True
                )
                if hold is not None:
                    found.append((command, done.stdout, hold))
                    time.sleep(hold)  # jobs run on meanwhile, as for the reader
        finally:
            subprocess.run([*shell, "backfill cancel --all; backfill serve --stop"], env=env, capture_output=True)
    return found


def frames(played: Sequence[tuple[str, str, float]]) -> Iterator[tuple[Screen, float]]:
    """Yield what the terminal shows, and for how long, in seconds."""
    screen: Screen = []
    for command, printed, hold in played:
        for end in range(TYPED, len(command) + TYPED, TYPED):
            yield [*screen, ("$ ", command[:end])], TYPE_S
        screen = [*screen, ("$ ", command)]
        yield screen, ENTER_S
        screen = [*screen, *(("", line) for line in printed.splitlines()), ("", "")][-ROWS + 1 :]
        yield screen, hold


def drawn(screen: Screen) -> Any:
    """Draw a screen. Returns an image of Pillow."""
    import matplotlib as mpl
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.truetype(Path(mpl.get_data_path()) / "fonts" / "ttf" / "DejaVuSansMono.ttf", SIZE)
    across, down = font.getlength("M"), SIZE + 5
    image = Image.new("RGB", (round(COLUMNS * across) + 2 * MARGIN, ROWS * down + 2 * MARGIN), PAPER)
    draw = ImageDraw.Draw(image)
    for row, (prompt, text) in enumerate(screen):
        at = MARGIN + row * down
        draw.text((MARGIN, at), prompt, PROMPT, font)
        draw.text((MARGIN + len(prompt) * across, at), text[: COLUMNS - len(prompt)], INK if prompt else SOFT, font)
    return image.quantize(8)


def main() -> None:
    """Run, draw and write."""
    shown = list(frames(play()))
    first, *others = [drawn(screen) for screen, _ in shown]
    spans = [round(1000 * span) for _, span in shown]
    first.save(OUT, save_all=True, append_images=others, duration=spans, loop=0, optimize=True)
    print(f"wrote {OUT}: {len(spans)} frames, {sum(spans) / 1000:.0f} s, {OUT.stat().st_size >> 10} KB")


if __name__ == "__main__":
    main()
