"""Opens reports from a small server, as people open a file that was sent to them: one file, which loads nothing else."""

import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from json import loads
from pathlib import Path
from threading import Thread

from appearance import assert_looks_right
from chromium import expect, say, started


class Quiet(SimpleHTTPRequestHandler):
    asked = []

    def do_GET(self):
        # Chromium asks for the icon of any page.
        if self.path == "/favicon.ico":
            self.send_response(204)
            self.end_headers()
        else:
            self.asked.append(self.path)
            super().do_GET()

    def log_message(self, *_):
        pass


def look(browser, folder):
    page = browser.page()
    for name, texts in {
        "hostile.html": ["<script>pwned()</script>", "\\u{202e}", "\\u{1b}", "<img src=x onerror=pwned()>.jsonl", "81.97 %"],
        "ordinary.html": ["access.log", "203.0.113.66", "Six algorithms"],
    }.items():
        Quiet.asked.clear()
        browser.open(page, f"/{name}")
        expect(page.get_by_role("heading", level=1)).to_have_text("Simulation")
        for text in texts:
            expect(page.locator("main")).to_contain_text(text)
        assert page.locator("main script, main img, main svg[onload]").count() == 0, name
        assert page.locator("svg.chart:visible").count() >= 2, name
        raw = (folder / name).read_text()
        hidden = [hex(ord(it)) for it in raw if it in "\u202e\u200b\u2066" or ord(it) < 32 and it != "\n"]
        assert not hidden, f"{name}: {hidden[:5]}"
        colours = set()
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme)
            colours.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        assert len(colours) == 2, f"{name}: {colours}"
        assert_looks_right(page, name)
        assert Quiet.asked == [f"/{name}"], f"{name} loads {Quiet.asked}"
        browser.assert_clean(name)


def main():
    folder = Path(loads(sys.argv[1])["folder"])
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder))
    Thread(target=server.serve_forever, daemon=True).start()
    with started(f"http://127.0.0.1:{server.server_port}") as browser:
        look(browser, folder)
        browser.assert_clean("at the end")
    server.shutdown()
    say("done")


main()
