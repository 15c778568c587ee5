"""Take the picture of the page of a queue for the README, docs/images/queue-page.png: python -m tools.queue_page

A simulated cluster runs a day of jobs, 600 times faster than real time; then the page is opened in the Chromium of the
system. Needs the extras `web` and `browser`.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

OUT = Path(__file__).parents[1] / "docs" / "images" / "queue-page.png"
SIZE = {"width": 1280, "height": 1280}
CLUSTER = '[[licence]]\nname = "matlab"\ncopies = 4\n\n[[node]]\nname = "n"\ncount = 4\ncpus = 32\nmemory = "128G"\n'
FAST, SLOW = 600, 1  # seconds of the cluster per second, while the day passes and while the picture is taken
JOBS, EVERY_S, DAY_S = 230, 400, 60_000
USERS = {"ana": "train", "boris": "cfd", "chen": "align", "dara": "md", "emil": "post", "fatima": "fit"}


def jobs() -> str:
    """Return the jobs of the day as a workload file."""
    draw, at, lines = random.Random(4), 0.0, ["job,submit,runtime,walltime,cpus,user,licences"]
    for number in range(1, JOBS + 1):
        at += draw.expovariate(1 / EVERY_S)
        user = draw.choice([*USERS])
        cpus = draw.choice([1, 2] if user == "emil" else [2, 4, 4, 8, 8, 16, 24, 32])
        limit = draw.choice([1800, 3600, 7200, 14_400, 28_800])
        runtime = max(60, int(limit * draw.betavariate(1.2, 1.5)))
        licence = "matlab:1" if user in ("ana", "fatima") and draw.random() < 0.6 else ""
        lines.append(f"{USERS[user]}-{number},{at:.0f},{runtime},{limit},{cpus},{user},{licence}")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Take the picture."""
    from playwright.sync_api import sync_playwright

    chromium = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))))
    with TemporaryDirectory() as folder:
        env = os.environ | {"BACKFILL_HOME": f"{folder}/queue"}

        def run(*words: str) -> str:
            command = [sys.executable, "-m", "backfill", *words]
            return subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout

        Path(folder, "cluster.toml").write_text(CLUSTER)
        pool = ["--pool", f"fake:speed={FAST},seed=4", "--platform", f"{folder}/cluster.toml"]
        run("serve", *pool, "--policy", "conservative", "--detach")
        Path(folder, "day.csv").write_text(jobs())
        run("submit", "--from", f"{folder}/day.csv")
        since = time.monotonic()
        while time.monotonic() - since < DAY_S / FAST:
            run("eta", "--json")  # so that estimates can be compared with starts
            time.sleep(1)
        run("serve", "--stop")
        settings = Path(folder, "queue", "config.toml")
        settings.write_text(settings.read_text().replace(f"speed={FAST}", f"speed={SLOW}"))
        run("serve", "--detach")
        run("eta", "--json")
        page = subprocess.Popen(
            [sys.executable, "-m", "backfill", "serve", "--web", "--listen", "127.0.0.1:0"],
            env=env, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            assert page.stdout is not None
            words = page.stdout.readline().split()
            with sync_playwright() as driver:
                browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
                picture(browser, words[1].rstrip(";"), Path(words[-1]).read_text().strip())
                browser.close()
        finally:
            page.terminate()
            page.wait()
            run("serve", "--stop")
    print(json.dumps({"written": str(OUT), "bytes": OUT.stat().st_size}))
    return 0


def picture(browser: Any, url: str, token: str) -> None:
    """Log in, wait for the chart, and write the picture."""
    page = browser.new_page(viewport=SIZE)
    page.goto(url)
    page.fill("input[name=token]", token)
    page.click("button")
    page.wait_for_selector("#plan[data-ready]")
    page.select_option("[name=state]", "PENDING")
    page.click("text=Filter")
    page.wait_for_selector("#plan[data-ready]")
    page.wait_for_timeout(6000)  # estimates come soon after the first look
    page.screenshot(path=OUT)


if __name__ == "__main__":
    sys.exit(main())
