"""Edits a rule as a person does, with the keyboard where that is quicker. The history has 20 requests of ann, 7 of bob and
1 of eve, so that a limit of 5 refuses 17, one of 2 refuses 23, and one of 100 none."""

from chromium import expect, run, say

RULE = "/ui/rules/few"


class Saved:
    """The rule as the API has it."""

    def __init__(self, page, token):
        self.page, self.token = page, token

    def limit(self, rule_id="few"):
        headers = {"Authorization": f"Bearer {self.token}"}
        response = self.page.request.get(f"/api/v1/rules/{rule_id}", headers=headers)
        return response.json()["limit"] if response.ok else None


def typed(browser, page, saved):
    """The linter, the difference and the effect follow what is typed, without a new page."""
    browser.open(page, RULE)
    page.evaluate("window.isSame = true")
    limit = page.get_by_role("textbox", name="Limit · required")
    limit.fill("many")
    expect(page.locator("#findings")).to_contain_text("expected a whole number")
    expect(limit).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#problem-limit")).to_contain_text("expected a whole number")
    expect(page.locator("#difference ins")).to_have_count(0)
    limit.fill("2")
    expect(page.locator("#problem-limit")).to_have_count(0)
    effect = page.locator("#effect")
    expect(effect).to_contain_text("Would have refused 23 of 28 requests")
    expect(effect).to_contain_text("now 17, 2 clients")
    expect(effect.get_by_role("row").filter(has_text="ann")).to_contain_text("ann201518")
    expect(effect.get_by_role("row").filter(has_text="bob")).to_contain_text("bob725")
    expect(effect).to_contain_text("Refusals of all rules are counted")
    expect(effect).not_to_contain_text("As often as now")
    difference = page.locator("#difference")
    expect(difference.locator("del")).to_contain_text("limit: 5")
    expect(difference.locator("ins")).to_contain_text("limit: 2")
    assert page.evaluate("window.isSame"), "the page was loaded again"
    assert limit.input_value() == "2"
    limit.fill("100")
    expect(effect).to_contain_text("Would have refused 0 of 28 requests")
    assert saved.limit() == 5, "a preview changes nothing"
    say("the preview follows what is typed")


def by_keyboard(page, saved):
    limit = page.get_by_role("textbox", name="Limit · required")
    limit.fill("9")
    limit.press("Enter")
    # Enter previews and never saves.
    expect(page.locator("#difference ins")).to_contain_text("limit: 9")
    expect(page.get_by_role("textbox", name="Limit · required")).to_have_value("9")
    assert saved.limit() == 5
    page.get_by_role("button", name="Save as revision").press("Enter")
    expect(page.locator(".notice")).to_contain_text("Saved as revision")
    assert saved.limit() == 9
    say("a rule is saved by keyboard")


def conflict(browser, page, saved, facts):
    """What another person saved meanwhile is not overwritten."""
    browser.open(page, RULE)
    other = browser.page(facts["admin"])
    browser.open(other, RULE)
    other.get_by_role("textbox", name="Limit · required").fill("11")
    other.get_by_role("button", name="Save as revision").click()
    expect(other.locator(".notice")).to_contain_text("Saved as revision")
    browser.expected.add(f"{browser.base}{RULE}")
    page.get_by_role("textbox", name="Limit · required").fill("12")
    page.get_by_role("button", name="Save as revision").click()
    expect(page.locator("#conflict")).to_contain_text("changed while you edited it")
    expect(page.locator("#conflict ins")).to_contain_text("limit: 11")
    expect(page.get_by_role("textbox", name="Limit · required")).to_have_value("12")
    expect(page.get_by_role("button", name="Save mine over version")).to_be_visible()
    assert saved.limit() == 11
    say("a rule that changed meanwhile is not overwritten")


def rollback(browser, page, saved):
    browser.open(page, RULE)
    rows = page.get_by_role("row").filter(has_text="limit 5 → 9")
    expect(rows).to_have_count(1)
    # It asks before it changes anything.
    expect(page.get_by_role("button", name="Roll back to revision")).to_have_count(0)
    page.locator("td .menu summary").last.press("Enter")
    page.get_by_role("button", name="Roll back to revision").last.press("Enter")
    expect(page.get_by_role("row").filter(has_text="limit 11 → 5")).to_have_count(1)
    assert saved.limit() == 5
    say("a rule is rolled back")


def as_yaml(browser, page, saved):
    browser.open(page, RULE)
    page.get_by_role("button", name="YAML").click()
    text = page.get_by_label("The rule in YAML")
    expect(text).to_contain_text("limit: 5")
    whole = text.input_value()
    text.fill(whole + "windw: 1m\n")
    expect(page.locator("#findings")).to_contain_text("windw")
    # Clients that are refused as often as now are counted, and not listed.
    text.fill(whole + "description: another\n")
    effect = page.locator("#effect")
    expect(effect).to_contain_text("As often as now: 2 refused clients")
    expect(effect).to_contain_text("No client is refused more or less often.")
    expect(effect.get_by_role("row")).to_have_count(0)
    text.fill(whole.replace("limit: 5", "limit: 6"))
    expect(page.locator("#difference ins")).to_contain_text("limit: 6")
    page.get_by_role("button", name="Save as revision").click()
    expect(page.locator(".notice")).to_contain_text("Saved as revision")
    assert saved.limit() == 6
    say("a rule is edited as text")


def made_and_deleted(browser, page, saved):
    browser.open(page, "/ui/rules")
    page.get_by_role("link", name="New rule").click()
    for label, value in [("Id · required", "fresh"), ("Limit · required", "3"), ("Window · required", "1m"), ("Counts by · required", "ip")]:
        page.get_by_role("textbox", name=label).or_(page.get_by_role("combobox", name=label)).fill(value)
    page.get_by_role("button", name="Save as revision").click()
    expect(page.get_by_role("heading", level=1, name="fresh")).to_be_visible()
    assert saved.limit("fresh") == 3
    page.locator(".toolbar summary", has_text="Shadow").click()
    page.get_by_role("button", name="Shadow: count, refuse nothing").click()
    expect(page.locator(".toolbar")).to_contain_text("shadow")
    menu = page.locator(".toolbar summary", has_text="Delete")
    menu.press("Enter")
    expect(page.get_by_role("button", name="Delete fresh")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Delete fresh")).to_be_hidden()
    menu.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Delete fresh")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1, name="Rules")).to_be_visible()
    assert saved.limit("fresh") is None
    say("a rule is made, shadowed and deleted")


def without_scripts(browser, facts):
    """Pages work without scripts too."""
    page = browser.page(facts["admin"], java_script_enabled=False)
    saved = Saved(page, facts["admin"])
    browser.open(page, RULE)
    page.get_by_role("textbox", name="Limit · required").fill("2")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("#effect")).to_contain_text("Would have refused 23 of 28 requests")
    page.get_by_role("button", name="Save as revision").click()
    expect(page.locator(".notice")).to_contain_text("Saved as revision")
    assert saved.limit() == 2
    say("a rule is edited without scripts")


def editing(browser, facts):
    page = browser.page(facts["admin"])
    saved = Saved(page, facts["admin"])
    typed(browser, page, saved)
    by_keyboard(page, saved)
    conflict(browser, page, saved, facts)
    rollback(browser, page, saved)
    as_yaml(browser, page, saved)
    made_and_deleted(browser, page, saved)
    without_scripts(browser, facts)


run(editing)
