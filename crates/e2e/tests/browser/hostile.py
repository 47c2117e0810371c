"""Opens every page that shows texts of others. They call `pwned()`, which fails the test, as do dialogs and violations of the
content security policy: a page that relies on the policy alone is not safe either."""

import json
from urllib.parse import quote, urlencode

from appearance import assert_fits
from chromium import expect, run, say


def addresses(text, decision):
    client = urlencode([("type", "user_id"), ("value", text)])
    both = urlencode([("type", "user_id"), ("value", text), ("type", "tenant"), ("value", text), ("endpoint", text), ("method", text)])
    tried = urlencode({name: text for name in ("method", "endpoint", "host", "user_id", "tenant", "tier")} | {"attributes": f"header:user-agent={text}"})
    filters = urlencode({name: text for name in ("actor", "entry", "client", "rule_id", "endpoint", "q")})
    query = urlencode({"q": text})
    return [
        "/", "/ui/rules", f"/ui/rules?{query}", "/ui/rules/r", "/ui/rules/s?edit=yaml", "/ui/clients", f"/ui/clients?{query}",
        f"/ui/client?{client}", f"/ui/client?{both}", "/ui/live", f"/ui/live?{filters}", f"/ui/try?{tried}", "/ui/audit",
        f"/ui/audit?{filters}", "/ui/audit?log=decisions", f"/ui/audit?log=decisions&{filters}", "/ui/lists?list=blacklist",
        "/ui/lists?list=whitelist", "/ui/lists?list=overrides", f"/ui/lists?{query}", "/ui/keys", "/ui/health",
        f"/ui/decisions/{decision}",
    ]


def hostile(browser, facts):
    text = facts["text"]
    page = browser.page(facts["admin"])
    for path in addresses(text, facts["decision"]):
        browser.open(page, path)
        # All details, so that what is folded is rendered too.
        page.evaluate("document.querySelectorAll('main details').forEach(it => { it.open = true; })")
        assert page.locator("main script, main img, main svg[onload]").count() == 0, path
        page.evaluate("document.querySelectorAll('details.menu').forEach(it => { it.open = false; })")
        for width in (1440, 390):
            page.set_viewport_size({"width": width, "height": 900})
            assert_fits(page, f"{path[:60]} at {width} px")
        page.set_viewport_size({"width": 1440, "height": 900})
        browser.assert_clean(path)
    say("no text runs on any page")
    for path, status in [(f"/ui/rules/{quote(text, safe='')}", 404), (f"/ui/decisions/{quote(text, safe='')}", 404), (f"/ui/{quote(text, safe='')}", 404)]:
        browser.open(page, path, status)
        assert_fits(page, path)
        browser.assert_clean(path)
    stream(browser, page, facts)
    preview(browser, page, text)
    sign_in(browser, text)


def stream(browser, page, facts):
    """Parts that come later are put into the page by a script."""
    for path in ["/", "/ui/live", "/ui/rules/r"]:
        browser.open(page, path)
        expect(page.locator("#live .state")).to_have_text("live")
        stamp = page.locator("#stamp").text_content()
        page.request.post("/api/v1/rate-limit/check", data=facts["check"])
        expect(page.locator("#stamp")).not_to_have_text(stamp)
        if path != "/ui/rules/r":
            expect(page.locator("main")).to_contain_text("<script>pwned()</script>")
        assert page.locator("main script, main img").count() == 0, path
        browser.assert_clean(path)
    say("no text runs that comes later")


def preview(browser, page, text):
    """What a person pastes comes back in findings and differences."""
    browser.open(page, "/ui/rules/r?edit=yaml")
    yaml = page.get_by_label("The rule in YAML")
    yaml.fill(f"rule_id: r\nname: {text}\n")
    expect(page.locator("#findings")).to_contain_text("line")
    yaml.fill(f"rule_id: r\nname: {json.dumps('other ' + text)}\nlimit: 5\nwindow: 1m\nidentifier_type: ip\n")
    expect(page.locator("#difference")).to_contain_text("pwned")
    field = "/ui/rules/r"
    browser.open(page, field)
    page.get_by_role("textbox", name="Limit · required").fill(text)
    expect(page.locator("#findings")).to_contain_text("whole number")
    browser.assert_clean("a preview")
    say("no text runs in a preview")


def sign_in(browser, text):
    page = browser.page()
    browser.open(page, f"/ui/sign-in?next={quote(text, safe='')}")
    browser.expected.add(f"{browser.base}/ui/sign-in")
    page.get_by_label("Token", exact=True).fill(text)
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_be_visible()
    browser.assert_clean("the sign-in")
    say("no text runs at the sign-in")


run(hostile)
