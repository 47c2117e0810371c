"""Replays a log of 30 requests of a greedy client and one of each of four others, within a minute: a limit of 10 refuses 20 of
34, one of 25 refuses 5. The browser of the greedy client has a name that would run if a page let it."""

from appearance import assert_looks_right
from chromium import expect, run, say

AGENT = "<script>pwned()</script><img src=x onerror=pwned()>"


def line(client, second, agent="agent/1"):
    return f'{client} - - [15/Nov/2026:10:00:{second:02} +0000] "GET /items HTTP/1.1" 200 5 "-" "{agent}"\n'


def log():
    greedy = [line("192.0.2.1", second, AGENT) for second in range(30)]
    return "".join(greedy + [line(f"198.51.100.{other}", 30 + other) for other in range(4)])


def choose(page, name, text):
    page.get_by_label("Access log").set_input_files({"name": name, "mimeType": "text/plain", "buffer": text.encode()})


def dropped(page, name, text):
    """A file that is dragged onto the field, as people do."""
    field = page.locator("[data-drop]")
    files = page.evaluate_handle(
        """([name, text]) => {
          const transfer = new DataTransfer();
          transfer.items.add(new File([text], name, { type: 'text/plain' }));
          return transfer;
        }""",
        [name, text],
    )
    field.dispatch_event("dragover", {"dataTransfer": files})
    expect(field).to_have_attribute("data-over", "")
    field.dispatch_event("drop", {"dataTransfer": files})
    expect(field).not_to_have_attribute("data-over", "")
    names = page.get_by_label("Access log").evaluate("input => [...input.files].map(file => file.name)")
    assert names == [name], names


def simulate(browser, facts):
    page = browser.page(facts["admin"])
    browser.open(page, "/ui/rules")
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Simulate").press("Enter")
    choose(page, f"{AGENT}.log", log())
    page.get_by_role("button", name="Simulate").press("Enter")
    report = page.locator("#report")
    for text in ["58.8 %", "192.0.2.1", AGENT, "per_ip", "token_bucket", "sliding_window_log", "leaky_bucket", "gcra", "fixed_window"]:
        expect(report).to_contain_text(text)
    assert page.locator("main script, main img").count() == 0
    say("a log is replayed")
    # The chart came later, and is read by keyboard all the same.
    page.locator("#log-course svg.chart:visible").focus()
    page.keyboard.press("Home")
    expect(report.locator(".tip:visible")).to_contain_text("10:00")
    assert_looks_right(page, "/ui/simulate with a report")
    browser.assert_clean("a report")
    edited(page, report)
    browser.assert_clean("edited rules")


def edited(page, report):
    text = page.get_by_label("The policy in YAML")
    if not text.is_visible():
        page.get_by_text("Edit the rules").click()
    whole = text.input_value()
    assert "limit: 10" in whole, whole
    text.fill(whole.replace("limit: 10", "limit: 25"))
    # Rules that are edited are those to try.
    expect(page.get_by_label("as edited below")).to_be_checked()
    dropped(page, "dropped.log", log())
    page.get_by_role("button", name="Simulate").click()
    expect(report).to_contain_text("14.7 %")
    expect(report).to_contain_text("dropped.log")
    say("edited rules are tried on a file that was dropped")


run(simulate)
