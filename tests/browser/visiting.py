"""Visitors of the page of a live queue, and what they wait for."""

import re
import time

from tests.patience import PATIENCE_S


def soon(page, truth):
    """Wait until something holds; playwright's own way needs `eval`, which the page forbids."""
    end = time.monotonic() + PATIENCE_S
    while not page.evaluate(truth):
        assert time.monotonic() < end, truth
        page.wait_for_timeout(100)


class Visitor:
    """Tabs of one browser that has logged in; what it complains of is an error of the page."""

    def __init__(self, browser, site, **more):
        self.site, self.complaints = site, []
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **more})
        self.context.set_default_timeout(1000 * PATIENCE_S)
        self.away = False  # failed requests are expected: the console names them

    def tab(self):
        page = self.context.new_page()
        page.on("console", lambda message: self.complain(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: (self.complaints.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: self.requested(request.url))
        return page

    def complain(self, text):
        failed = "Failed to load resource" in text or "ERR_" in text
        if not (self.away and failed):
            self.complaints.append(text)

    def requested(self, url):
        if not url.startswith((self.site.url, "data:", "blob:")):
            self.complaints.append(f"a request to {url}")

    def log_in(self, path="/"):
        page = self.tab()
        page.goto(f"{self.site.url}{path}")
        page.fill("input[name=token]", self.site.token)
        page.click("button")
        page.wait_for_url(f"{self.site.url}{path}")
        return page

    def open(self, path, page=None):
        page = page or self.tab()
        page.goto(f"{self.site.url}{path}")
        return page


def see(page, selector, text):
    """Wait until an element has a text."""
    from playwright.sync_api import expect

    expect(page.locator(selector)).to_contain_text(re.compile(text, re.DOTALL))


def chart_of(page):
    """Wait for the chart of the plan."""
    page.wait_for_selector("#plan[data-ready]")
    return "document.getElementById('plan').section.chart"
