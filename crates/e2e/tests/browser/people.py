"""Signs in with tokens of every role, and sees what each may see and do."""

from chromium import expect, run, say, sign_in

PAGES = ["/", "/ui/rules", "/ui/rules/login", "/ui/clients", "/ui/client?type=ip&value=203.0.113.66", "/ui/live", "/ui/try",
         "/ui/audit", "/ui/lists", "/ui/lists?list=overrides", "/ui/keys", "/ui/health"]


def wrong_tokens(browser, facts):
    page = browser.page()
    browser.open(page, "/ui/rules")
    assert page.url.startswith(f"{browser.base}/ui/sign-in"), page.url
    expect(page.get_by_label("Token", exact=True)).to_be_focused()
    browser.expected.add(f"{browser.base}/ui/sign-in")
    for token, why in [("tg_wrong_token", "not known"), (facts["caller"], "can only check requests")]:
        page.get_by_label("Token", exact=True).fill(token)
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_contain_text(why)
    say("wrong tokens are refused")
    # The page that was asked for at first.
    page.get_by_label("Token", exact=True).fill(facts["viewer"])
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1, name="Rules")).to_be_visible()
    assert page.url == f"{browser.base}/ui/rules", page.url
    assert page.evaluate("document.cookie") == "", "scripts see no cookie"
    (cookie,) = page.context.cookies()
    assert cookie["httpOnly"] and cookie["sameSite"] == "Strict", cookie
    say("a viewer is signed in")
    return page


def viewer(browser, page):
    for path in PAGES:
        browser.open(page, path)
        forms = page.locator("form[method=post]")
        actions = [form.get_attribute("action") for form in forms.all()]
        # The editor shows a rule to those who may only read it.
        kept = [it for it in actions if it not in ("/ui/sign-out", "/ui/rules/login")]
        assert not kept, f"a viewer may not use {kept} on {path}"
        assert page.get_by_role("button", name="Save").count() == 0, path
    browser.open(page, "/ui/new-rule", 403)
    expect(page.get_by_role("navigation", name="Pages")).to_be_visible()
    browser.open(page, "/ui/keys")
    assert page.get_by_role("heading", name="Tokens", exact=True).count() == 0
    say("a viewer changes nothing")


def operator(browser, facts):
    page = browser.page(facts["operator"])
    browser.open(page, "/ui/rules")
    expect(page.get_by_role("link", name="New rule")).to_be_visible()
    browser.open(page, "/ui/keys")
    assert page.get_by_role("heading", name="Tokens", exact=True).count() == 0
    page.get_by_text("New API key…").click()
    page.get_by_role("textbox", name="Name").first.fill("made here")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_text("It is shown once.")).to_be_visible()
    say("an operator makes keys and sees no tokens")


def revoked(browser, facts, page):
    """An open page says that its session has ended, and leads to the sign-in."""
    browser.open(page, "/")
    expect(page.locator("#live .state")).to_have_text("live")
    admin = browser.page(facts["admin"])
    browser.open(admin, "/ui/keys")
    row = admin.get_by_role("row").filter(has_text="a viewer")
    row.locator("summary").click()
    row.get_by_role("button", name="Revoke").click()
    expect(admin.get_by_role("status").filter(has_text="evoked")).to_be_visible()
    expect(page.locator("#live .state")).to_have_text("ended, as of")
    browser.open(page, "/ui/rules")
    expect(page.get_by_label("Token", exact=True)).to_be_visible()
    say("a revoked token ends its sessions")
    return admin


def signed_out(browser, page):
    browser.open(page, "/ui/rules")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Token", exact=True)).to_be_visible()
    page.go_back()
    expect(page.get_by_label("Token", exact=True)).to_be_visible()
    assert page.get_by_role("navigation", name="Pages").count() == 0
    say("a page is not shown again after signing out")


def people(browser, facts):
    page = wrong_tokens(browser, facts)
    viewer(browser, page)
    operator(browser, facts)
    admin = revoked(browser, facts, page)
    signed_out(browser, admin)


run(people)
