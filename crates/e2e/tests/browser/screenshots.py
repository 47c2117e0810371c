"""Takes the pictures of the documents while requests arrive, and looks whether each shows something."""

import struct
import time
import zlib
from pathlib import Path

from chromium import expect, run, say


def chunks(picture):
    """The chunks of a PNG file: the kind and the content of each."""
    at = 8
    while at < len(picture):
        (length,) = struct.unpack_from(">I", picture, at)
        yield picture[at + 4 : at + 8], picture[at + 8 : at + 8 + length]
        at += 12 + length


def assert_shows(file, width, height):
    """A picture has the size that was asked for, and rows that differ beside the navigation: a blank page has few."""
    picture = Path(file).read_bytes()
    parts = list(chunks(picture))
    size = struct.unpack(">II", parts[0][1][:8])
    assert size == (width, height), f"{file} is {size}, not {(width, height)}"
    data = zlib.decompress(b"".join(content for kind, content in parts if kind == b"IDAT"))
    length = len(data) // height
    # Where a page is blank, filtered pixels are the same in each row.
    left = (length - 1) // width * 240 if width > 900 else 0
    rows = {data[at + 1 + left : at + length] for at in range(0, len(data), length)}
    assert len(rows) > height // 4, f"{file} is blank: {len(rows)} of {height} rows differ"


def screenshots(browser, facts):
    page = browser.page(facts["admin"])
    until = int(time.time())
    span = f"from={until - facts['seconds']}&until={until}"

    def take(name, path, width=1280, height=800, theme="light", prepare=None):
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        browser.open(page, path)
        if page.locator("[data-live]").count():
            expect(page.locator("#live .state")).to_have_text("live")
        if prepare:
            prepare()
        file = f"{facts['folder']}/{name}.png"
        page.screenshot(path=file)
        assert_shows(file, width, height)
        browser.assert_clean(name)
        say(f"took {name}")

    def point():
        """The cursor on the peak of refusals."""
        box = page.locator("#course svg.chart:visible").bounding_box()
        page.mouse.move(box["x"] + box["width"] * 0.72, box["y"] + box["height"] / 2)
        expect(page.locator(".tip:visible")).to_be_visible()

    def edit():
        page.get_by_role("textbox", name="Limit · required").fill("8")
        expect(page.locator("#effect")).to_contain_text("Would have refused")

    def simulate():
        page.get_by_label("Access log").set_input_files(facts["log"])
        page.get_by_role("button", name="Simulate").click()
        expect(page.locator("#log-course svg.chart:visible")).to_be_visible()

    take("overview", f"/?{span}", height=980, prepare=point)
    take("overview-dark", f"/?{span}", height=980, theme="dark")
    take("rule", f"/ui/rules/uploads?{span}", height=1060, prepare=edit)
    take("rules", f"/ui/rules?{span}", height=620)
    take("live", "/ui/live", height=980)
    take("client", "/ui/client?type=user_id&value=u_35&endpoint=%2Fuploads&method=PUT", height=700)
    take("try", "/ui/try?ip=203.0.113.66&endpoint=%2Flogin&method=POST", height=700)
    take("simulate", "/ui/simulate", height=1060, prepare=simulate)
    take("phone", f"/?{span}", width=390, height=844)


run(screenshots)
