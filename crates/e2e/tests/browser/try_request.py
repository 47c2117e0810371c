"""Composes a request and has it explained, then charged: the tree names the rule that refuses, and nothing else."""

import re

from chromium import expect, run, say


def filled(browser, page, fields):
    browser.open(page, "/ui/try")
    for label, value in fields.items():
        if label == "Method":
            page.locator("select[name=method]").select_option(value)
        else:
            page.get_by_label(label, exact=True).fill(value)
    page.get_by_role("button", name="Explain").click()


def try_request(browser, facts):
    page = browser.page(facts["admin"])
    filled(browser, page, {"Method": "PUT", "Endpoint": "/uploads", "User": "ann"})
    tree = page.locator("ol.tree")

    def step(rule_id):
        return tree.locator("li.step li.step").filter(has=page.get_by_role("link", name=rule_id, exact=True))

    binds = tree.locator(".tag").get_by_text("binds", exact=True)
    expect(binds).to_have_count(1)
    expect(step("uploads")).to_contain_text("0 of 8 used")
    expect(step("uploads").get_by_text("ann", exact=True)).to_be_visible()
    expect(step("login")).to_have_class("step off")
    expect(step("login").locator("code")).to_have_text("/uploads")
    page.get_by_role("button", name="Check this request (charges)").click()
    expect(page.get_by_role("heading", name="Decision")).to_contain_text("passed")
    expect(step("uploads")).to_contain_text("1 of 8 used")
    say("a request is explained, and charged")
    # A banned client: moments are short, and what is quoted is code.
    filled(browser, page, {"Method": "POST", "Endpoint": "/login", "Address": "203.0.113.66"})
    for _ in range(2):
        expect(binds).to_have_count(1)
        expect(step("login")).to_have_class("step binds")
        expect(step("login")).to_contain_text("banned until")
        text = page.locator("main").inner_text()
        assert "`" not in text, text
        assert not re.search(r"\d{4}-\d\d-\d\dT", text), text
        page.get_by_role("button", name="Check this request (charges)").click()
        expect(page.get_by_role("heading", name="Decision")).to_contain_text("refused")
    say("a ban is explained")


run(try_request)
