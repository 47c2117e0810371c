"""Compares what open pages show with `/metrics`, while requests arrive. No page is loaded again."""

import json
import re

from chromium import expect, run, say

# The sums of a chart: rates times seconds.
SUMS = """() => {
  const chart = document.querySelector('#course svg.chart');
  if (!chart) return null;
  const times = JSON.parse(chart.dataset.times);
  const step = times[1] - times[0];
  const sum = name => Math.round(step * JSON.parse(chart.dataset.series)
    .find(it => it.name === name).values.reduce((sum, it) => sum + (it ?? 0), 0));
  return { allowed: sum('allowed'), throttled: sum('throttled'), refused: sum('refused') };
}"""
# How far anything moved that a person was not touching.
SHIFTS = """new PerformanceObserver(list => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shift = (window.shift ?? 0) + entry.value;
}).observe({ type: 'layout-shift', buffered: false });"""


class Server:
    def __init__(self, page):
        self.page = page

    def check(self, checks):
        response = self.page.request.post("/api/v1/rate-limit/check/batch", data={"checks": checks})
        assert response.ok, response.text()

    def metrics(self):
        """Requests by outcome, as a chart has them."""
        counts = {"allowed": 0, "throttled": 0, "refused": 0}
        kinds = {"unlimited": "allowed", "denied": "refused"}
        text = self.page.request.get("/metrics").text()
        for outcome, count in re.findall(r'tollgate_requests_total\{entry="http",outcome="(\w+)"\} (\d+)', text):
            kind = kinds.get(outcome, outcome)
            if kind in counts:
                counts[kind] += int(count)
        return counts

    def refused_by(self, rule_id):
        text = self.page.request.get("/metrics").text()
        found = re.findall(rf'tollgate_decisions_total\{{rule_id="{rule_id}",outcome="(?:refused|banned)"\}} (\d+)', text)
        return sum(map(int, found))


def overview(browser, page, server, rounds):
    browser.open(page, "/?range=15m")
    # Nothing moves before the page has settled.
    expect(page.locator("#live .state")).to_have_text("live")
    page.evaluate("window.isSame = true")
    for number, checks in enumerate(rounds):
        server.check(checks)
        if number == 0:
            # The first requests replace the sentence that there were none.
            page.wait_for_function(f"() => ({SUMS})() !== null")
            page.evaluate(SHIFTS)
        metrics = server.metrics()
        page.wait_for_function(f"sums => JSON.stringify(({SUMS})()) === sums", arg=json.dumps(metrics, separators=(",", ":")))
        say(f"the chart shows {metrics}")
    assert metrics["refused"] > 0 and metrics["throttled"] > 0, metrics
    assert page.evaluate("window.isSame"), "the page was loaded again"
    shift = page.evaluate("window.shift ?? 0")
    assert shift < 0.05, f"the page moved by {shift}"
    share = page.locator("#tiles .tile").filter(has_text="Refused").locator("b")
    expected = 100 * metrics["refused"] / sum(metrics.values())
    shown = float(share.text_content().replace("%", ""))
    assert abs(shown - expected) < 0.1, f"{shown} % is shown, {expected} % were refused"


def live(browser, page, server, rounds):
    browser.open(page, "/ui/live")
    row = page.locator("#lists section").filter(has_text="Most refused").get_by_role("listitem").filter(has_text="203.0.113.66")
    expect(row.locator("b")).to_have_text(str(server.refused_by("login")))
    first = page.locator("#tail tbody tr").first
    before = first.text_content()
    page.get_by_role("button", name="Pause").click()
    stamp = page.locator("#stamp").text_content()
    server.check(rounds[-1] + rounds[-2])
    expect(row.locator("b")).to_have_text(str(server.refused_by("login")))
    expect(page.locator("#stamp")).not_to_have_text(stamp)
    assert first.text_content() == before, "a paused list moved"
    page.get_by_role("button", name="Go on").click()
    expect(first).not_to_have_text(before)
    say("lists show what the metrics say, and a pause holds them")
    # A filter looks into the log, and stays when the page moves.
    browser.open(page, "/ui/live?client=203.0.113.66&outcome=refused")
    rows = page.locator("#tail tbody tr")
    count = rows.count()
    assert count > 0
    stamp = page.locator("#stamp").text_content()
    expect(page.locator("#stamp")).not_to_have_text(stamp)
    expect(rows).to_have_count(count)


def rule(browser, page, server, rounds):
    """Rules have steps of ten seconds."""
    browser.open(page, "/ui/rules?range=15m")
    refused = page.get_by_role("row").filter(has_text="login").get_by_role("link").last
    expect(refused).to_have_attribute("title", f"{server.refused_by('login')} in this range")
    say("a rule shows what the metrics say")


def figures(browser, facts):
    page = browser.page(facts["admin"])
    server = Server(page)
    overview(browser, page, server, facts["rounds"])
    live(browser, page, server, facts["rounds"])
    rule(browser, page, server, facts["rounds"])


run(figures)
