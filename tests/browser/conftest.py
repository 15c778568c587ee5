"""Pages in a headless Chromium: the one of the system, driven by playwright. Without either, the tests are skipped."""

import json
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import backfill as bf
from backfill.report.outcome import Outcome
from backfill.report.write import write_report
from tests.browser.visiting import Visitor
from tests.patience import PATIENCE_S
from tests.queue.conftest import Live
from tests.web.conftest import sites_of

SHELL = "chromium-headless-shell"  # takes less than half of the time of a browser that could have windows
CHROMIUM = next(filter(None, map(shutil.which, (SHELL, "chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install 'backfill[browser]'")
    if CHROMIUM is None:
        pytest.skip("needs Chromium: apt-get install --no-install-recommends chromium-headless-shell")
    with playwright.sync_playwright() as driver:
        # The tests' own pages only, so the sandbox, which root cannot have, is not missed.
        running = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        playwright.expect.set_options(timeout=1000 * PATIENCE_S)
        yield running
        running.close()


@pytest.fixture(scope="session")
def context_of(browser: Any) -> Callable[..., Any]:
    """A window for pages, one for each kind of them; pages keep nothing there."""

    def made(kind: str) -> Any:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **json.loads(kind)})
        context.set_default_timeout(1000 * PATIENCE_S)
        return context

    found = cache(made)
    return lambda more: found(json.dumps(more))


@pytest.fixture
def open_page(context_of: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """Opens a file and waits for the chart, where there is one; the browser must have nothing to complain of."""
    pages: list[Any] = []
    complaints: list[str] = []

    def open_(path: Path, chart: bool = True, **more: Any) -> Any:
        pages.append(page := context_of(more).new_page())
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: request.url.startswith("file:") or complaints.append(request.url))
        page.goto(path.as_uri())
        if chart:
            page.wait_for_selector("#gantt[data-ready]")
        return page

    yield open_
    for page in pages:
        page.close()
    assert complaints == []


@pytest.fixture(scope="session")
def results() -> list[bf.Result]:
    log = bf.generate("lublin?jobs=400&cpus=64&load=0.9&seed=5")
    return [bf.simulate(log, policy=policy) for policy in ("fcfs", "easy", "conservative")]


@pytest.fixture(scope="session")
def small(results: list[bf.Result], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("small") / "out.html"
    write_report(path, Outcome.of(results, "backfill compare"))
    return path


@pytest.fixture(scope="session")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison of which the first policy is far worse, so that numbers of all sizes stand side by side."""
    path = tmp_path_factory.mktemp("compared") / "out.html"
    log = bf.generate("lublin?jobs=3000&cpus=64&load=1.1&seed=5")
    bf.compare(log, None, ["fcfs", "easy", "easy-sjbf"]).report(path)
    return path


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Any]]:
    """Make visitors of a site."""
    made: list[Visitor] = []

    def make(site: Any, **more: Any) -> Visitor:
        made.append(Visitor(browser, site, **more))
        return made[-1]

    yield make
    for each in made:
        each.context.close()
        assert each.complaints == []


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Make the site of a queue of this test alone."""
    if CHROMIUM is None:
        pytest.skip("needs Chromium")
    live = Live(tmp_path)
    with sites_of(live) as make:

        def made(*options: str, pool: str = "local") -> Any:
            live.configure("conservative", pool=pool)
            return make(*options)

        yield made
