"""Takes the pictures of the documents while requests arrive."""

import time

from chromium import expect, run, say


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
        page.screenshot(path=f"{facts['folder']}/{name}.png")
        say(f"took {name}")

    def point():
        """The cursor on the peak of refusals."""
        box = page.locator("#course svg.chart:visible").bounding_box()
        page.mouse.move(box["x"] + box["width"] * 0.72, box["y"] + box["height"] / 2)
        expect(page.locator(".tip:visible")).to_be_visible()

    def edit():
        page.get_by_role("textbox", name="Limit · required").fill("8")
        expect(page.locator("#effect")).to_contain_text("Would have refused")

    take("overview", f"/?{span}", height=980, prepare=point)
    take("overview-dark", f"/?{span}", height=980, theme="dark")
    take("rule", f"/ui/rules/uploads?{span}", height=1060, prepare=edit)
    take("rules", f"/ui/rules?{span}", height=620)
    take("live", "/ui/live", height=980)
    take("client", "/ui/client?type=user_id&value=u_35&endpoint=%2Fuploads&method=PUT", height=700)
    take("try", "/ui/try?ip=203.0.113.66&endpoint=%2Flogin&method=POST", height=700)
    take("phone", f"/?{span}", width=390, height=844)


run(screenshots)
