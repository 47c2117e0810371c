"""Uses pages without a mouse: charts, menus, the search, and where the focus is. Charts are read with a mouse too."""

import re

from chromium import expect, run, say

# The focused element, and whether a person sees that it is: an outline, or the skip link that comes into view.
FOCUS = """() => {
  const element = document.activeElement;
  const style = getComputedStyle(element);
  const box = element.getBoundingClientRect();
  return {
    name: `${element.nodeName} ${element.className} ${(element.textContent ?? '').trim().slice(0, 30)}`,
    isVisible: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1 && box.width > 0 && box.height > 0,
    isBody: element === document.body,
  };
}"""


def chart(browser, page):
    browser.open(page, "/?range=15m")
    svg = page.locator("#course svg.chart:visible")
    svg.focus()
    tip = page.locator("figure.plot").first.locator(".tip")
    announced = page.locator("#announce")
    expect(tip).to_be_hidden()
    page.keyboard.press("End")
    expect(tip).to_be_visible()
    last = tip.text_content()
    assert "UTC" in last and "allowed" in last and "refused" in last, last
    expect(announced).to_contain_text("UTC: allowed")
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    assert tip.text_content()[:9] < last[:9], f"{tip.text_content()} is not before {last}"
    heard = announced.text_content()
    page.keyboard.press("ArrowRight")
    assert announced.text_content() > heard, "what is under the cursor is announced"
    page.keyboard.press("Home")
    expect(tip).to_contain_text("no data")
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()
    # The data stays reachable while the page moves.
    page.keyboard.press("End")
    expect(tip).to_be_visible()
    stamp = page.locator("#stamp").text_content()
    expect(page.locator("#stamp")).not_to_have_text(stamp)
    expect(tip).to_be_visible()
    expect(svg).to_be_focused()
    say("a chart is walked with arrow keys")
    # Enter leads to the refusals behind a point.
    for _ in range(240):
        if "refused0" not in tip.text_content().replace(" ", "") and "no data" not in tip.text_content():
            break
        page.keyboard.press("ArrowLeft")
    # And which rule refused most: of this traffic that of the sign-in, of one client.
    expect(tip).to_contain_text("% of refusals")
    expect(announced).to_contain_text("% of refusals")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1, name="Audit")).to_be_visible()
    expect(page.locator("table.decisions tbody tr").first).to_contain_text("refused")
    say("a point leads to its refusals")


def hover(browser, page):
    """The mouse over a chart shows the figures of the point below it."""
    browser.open(page, "/?range=15m")
    svg = page.locator("#course svg.chart:visible")
    tip = page.locator("figure.plot").first.locator(".tip")
    box = svg.bounding_box()
    left, _, right, _ = (float(it) for it in svg.get_attribute("data-plot").split())
    scale = box["width"] / float(svg.get_attribute("viewBox").split()[2])
    height = box["y"] + box["height"] / 2
    seen = []
    for part in (0.02, 0.5):
        page.mouse.move(box["x"] + (left + (right - left) * part) * scale, height)
        expect(tip).to_be_visible()
        seen.append(tip.text_content())
    # There was no traffic then.
    assert all("no data" in it and "allowed" in it and "refused" in it for it in seen), seen
    assert seen[0][:5] < seen[1][:5], seen
    # Where the traffic is, there are figures.
    for step in range(200):
        page.mouse.move(box["x"] + (right - (right - left) * step / 400) * scale, height)
        text = tip.text_content()
        if "no data" not in text and not text.endswith("refused0"):
            break
    assert re.search(r"allowed[\d.,]*[1-9]", text) and "% of refusals" in text, text
    page.mouse.move(box["x"], box["y"] - 40)
    expect(tip).to_be_hidden()
    say("a chart is read with the mouse")


def drag(browser, page):
    browser.open(page, "/?range=15m")
    box = page.locator("#course svg.chart:visible").bounding_box()
    height = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.5, height)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.8, height, steps=4)
    page.mouse.up()
    expect(page.get_by_role("link", name="zoomed")).to_be_visible()
    assert "from=" in page.url and "until=" in page.url, page.url
    say("a drag zooms")


def focus(browser, page, path, least):
    """Every stop of the Tab key can be seen, and none is a trap."""
    browser.open(page, path)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    expect(page.get_by_role("link", name="Skip to the content")).to_be_in_viewport()
    stops = []
    for _ in range(60):
        page.keyboard.press("Tab")
        found = page.evaluate(FOCUS)
        if found["isBody"]:
            break
        assert found["isVisible"], f"{path}: the focus on {found['name']} cannot be seen"
        stops.append(found["name"])
    assert len(stops) >= least, f"{path}: {stops}"
    say(f"the focus is seen on {path}")


def search(browser, page):
    browser.open(page, "/ui/rules")
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox", name="Find a client")).to_be_focused()
    page.keyboard.type("u_8103")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="u_8103").first.press("Enter")
    expect(page.get_by_role("heading", level=2).filter(has_text="u_8103")).to_be_visible()
    say("a client is found by keyboard")


def override(browser, page):
    """A form in a menu: opened, filled and sent by keyboard."""
    browser.open(page, "/ui/client?type=user_id&value=u_8103")
    page.locator("summary").filter(has_text="Override").press("Enter")
    limit = page.locator("details[open] input[name=limit]")
    limit.fill("77")
    limit.press("Enter")
    expect(page.get_by_role("row").filter(has_text="limit 77")).to_be_visible()
    say("an override is made by keyboard")
    browser.open(page, "/ui/client?type=ip&value=203.0.113.12")
    # The name says which of the limits it is.
    page.get_by_role("button", name="Double for 4 h under api_burst").press("Enter")
    limit = page.locator("ul.limits li").filter(has=page.get_by_role("link", name="api_burst"))
    expect(limit).to_contain_text("override, ends in")
    expect(limit).to_contain_text("20 / 1 s")
    say("a limit is doubled by one click")


def keyboard(browser, facts):
    page = browser.page(facts["admin"])
    chart(browser, page)
    hover(browser, page)
    drag(browser, page)
    for path, least in [("/", 20), ("/ui/rules/login", 25), ("/ui/client?type=user_id&value=ann", 15)]:
        focus(browser, page, path, least)
    search(browser, page)
    override(browser, page)


run(keyboard)
