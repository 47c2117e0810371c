"""Looks at pages: every width, both themes, no console error, no other host, nothing out of place."""

from appearance import assert_looks_right
from chromium import expect, run


def look(browser, facts):
    stranger = browser.page()
    browser.open(stranger, "/ui/sign-in")
    assert_looks_right(stranger, "/ui/sign-in")
    page = browser.page(facts["admin"])
    offered = page.get_by_role("navigation", name="Pages").get_by_role("link")
    addresses = [link.get_attribute("href") for link in offered.all()]
    pages = facts["pages"] + [it for it in addresses if it == "/ui/simulate"]
    for path, status in [(it, 200) for it in pages] + facts.get("errors", []):
        browser.open(page, path, status)
        if text := facts.get("texts", {}).get(path):
            expect(page.locator("main")).to_contain_text(text)
        assert_looks_right(page, path)
        browser.assert_clean(path)


run(look)
