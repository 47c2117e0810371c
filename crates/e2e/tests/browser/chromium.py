"""Chromium for one test. Whatever a page should not do is a problem, and a problem fails the test: errors in the
console, requests to other hosts, violations of the content security policy, dialogs, scripts that a client wrote.

Scripts beside this file take one argument, JSON with the facts about the server. They print a line for each step, and
`done` when nothing was wrong.
"""

import json
import re
import sys
from contextlib import contextmanager
from urllib.parse import urlsplit

from playwright.sync_api import Error, expect, sync_playwright

CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # No name is ever resolved, so that nothing leaves this machine even if a page asks for it.
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1 , EXCLUDE localhost",
]
# Far more than anything takes: a machine may be busy with other tests.
TIMEOUT_MS = 40_000

WATCH = """
addEventListener('securitypolicyviolation', event =>
  tollgateProblem(`violates ${event.violatedDirective}: ${event.blockedURI} ${event.sample}`), true);
"""


class Browser:
    """A running Chromium, and what went wrong in it."""

    def __init__(self, chromium, base):
        self.chromium = chromium
        self.base = base
        self.problems = []
        self.expected = set()

    def context(self, **options):
        """A person with a browser: a session of its own, and a first page."""
        context = self.chromium.new_context(
            base_url=self.base, viewport={"width": 1440, "height": 900}, **options
        )
        context.set_default_timeout(TIMEOUT_MS)
        context.on("console", self.on_console)
        context.on("weberror", lambda error: self.problem(f"script error: {error.error}"))
        context.on("dialog", self.on_dialog)
        context.on("request", self.on_request)
        context.on("requestfailed", self.on_failed)
        # The name that hostile texts call.
        context.expose_binding("pwned", lambda source: self.problem(f"a text ran: {source['page'].url}"))
        context.expose_binding(
            "tollgateProblem", lambda source, text: self.problem(f"{source['page'].url} {text}")
        )
        context.add_init_script(WATCH)
        return context

    def page(self, token=None, **options):
        """A new person's page, signed in with a token."""
        page = self.context(**options).new_page()
        if token:
            sign_in(page, token)
        return page

    def open(self, page, path, status=200):
        """Opens an address, and expects a status."""
        if status >= 400:
            self.expected.add(self.base + path)
        response = page.goto(path)
        assert response.status == status, f"{path}: status {response.status}, not {status}"
        return response

    def problem(self, text):
        self.problems.append(text)

    def on_console(self, message):
        if message.type not in ("error", "warning"):
            return
        address = message.location.get("url", "")
        is_status = re.match(r"Failed to load resource: .* status of 4", message.text)
        if not (is_status and address in self.expected):
            self.problem(f"console at {address}: {message.text}")

    def on_dialog(self, dialog):
        self.problem(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def on_request(self, request):
        parts = urlsplit(request.url)
        if parts.scheme != "data" and f"{parts.scheme}://{parts.netloc}" != self.base:
            self.problem(f"a request to another host: {request.url}")

    def on_failed(self, request):
        # Streams and previews end when their page does.
        if request.failure not in ("net::ERR_ABORTED", None):
            self.problem(f"{request.url}: {request.failure}")

    def assert_clean(self, when):
        """Nothing went wrong so far."""
        assert not self.problems, f"{when}: " + "\n".join(self.problems)


def sign_in(page, token):
    """Signs in by the form."""
    page.goto("/ui/sign-in")
    page.get_by_label("Token", exact=True).fill(token)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("navigation", name="Pages")).to_be_visible()


def say(step):
    print(step, flush=True)


@contextmanager
def started(base):
    """Chromium, and its end."""
    expect.set_options(timeout=TIMEOUT_MS)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS, timeout=TIMEOUT_MS)
        try:
            yield Browser(chromium, base)
        finally:
            chromium.close()


def run(test):
    """Runs `test(browser, facts)`."""
    facts = json.loads(sys.argv[1])
    with started(facts["base"]) as browser:
        test(browser, facts)
        browser.assert_clean("at the end")
    say("done")


__all__ = ["Error", "expect", "run", "say", "sign_in"]
