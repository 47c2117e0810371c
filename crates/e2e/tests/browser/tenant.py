"""Signs in as the administrator of one tenant, while clients of two send requests."""

from chromium import expect, run, say

FOREIGN = ("globex", "u_33", "192.0.2.15", "u_8100")
PAGES = ["/", "/ui/rules", "/ui/rules/acme_orders", "/ui/live", "/ui/live?window=300", "/ui/audit", "/ui/audit?log=decisions",
         "/ui/lists", "/ui/lists?list=blacklist", "/ui/lists?list=overrides", "/ui/new-rule"]
HIDDEN = ["/ui/clients", "/ui/client?type=user_id&value=u_33", "/ui/try", "/ui/keys", "/ui/health"]


def assert_own(page, path):
    shown = page.content()
    for word in FOREIGN:
        assert word not in shown, f"{path} shows {word}"


def tenant(browser, facts):
    page = browser.page(facts["tenant"])
    for path in PAGES:
        browser.open(page, path)
        assert_own(page, path)
    say("nothing of another tenant is on a page")
    for path in ["/", "/ui/live"]:
        browser.open(page, path)
        stamp = page.locator("#stamp").text_content()
        # The page follows what happens, three times.
        for _ in range(3):
            expect(page.locator("#stamp")).not_to_have_text(stamp)
            stamp = page.locator("#stamp").text_content()
            assert_own(page, path)
    say("nothing of another tenant comes later")
    links = page.get_by_role("navigation", name="Pages").get_by_role("link").all()
    offered = [link.get_attribute("href") for link in links]
    for path in HIDDEN:
        assert path not in offered, f"{path} is offered"
        browser.open(page, path, 403)
        assert_own(page, path)
    for path in ["/ui/rules/login", "/ui/rules/per_user"]:
        browser.open(page, path, 404)
    say("pages of others are refused")


run(tenant)
