"""What can be measured of how a page looks: nothing scrolls sideways, nothing leaves its card, axe finds nothing serious."""

from pathlib import Path

import axe_playwright_python

from chromium import say

AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()
WIDTHS = (1440, 1280, 390)
THEMES = ("light", "dark")
SERIOUS = ("serious", "critical")
# The rules of axe by width and theme: all of them in the widest and the narrowest layout, those of colours in the dark.
RULES = {
    (1440, "light"): None,
    (1440, "dark"): ["color-contrast", "link-in-text-block"],
    (390, "light"): None,
}

# The boxes of texts and fields that stand out of their card or of the page. What scrolls by itself, floats or is only
# for screen readers does not count.
OUTSIDE = """() => {
  const scrolls = element => ['auto', 'scroll', 'hidden'].includes(getComputedStyle(element).overflowX);
  const found = [];
  for (const element of document.querySelectorAll('main *, .side *')) {
    const style = getComputedStyle(element);
    if (['absolute', 'fixed'].includes(style.position) || element.closest('.hidden-text, svg svg, [hidden]')) continue;
    if (element.closest('svg') && element.nodeName !== 'svg') continue;
    const box = element.getBoundingClientRect();
    if (box.width === 0 || box.height === 0) continue;
    let holder = element.parentElement;
    while (holder && !scrolls(holder) && !holder.matches('.card, .tile, .panel, main, .side, body')) holder = holder.parentElement;
    if (!holder || scrolls(holder)) continue;
    const border = holder.getBoundingClientRect();
    const inside = getComputedStyle(holder);
    const room = { left: border.left + parseFloat(inside.paddingLeft), right: border.right - parseFloat(inside.paddingRight) };
    if (box.right > room.right + 1 || box.left < room.left - 1) {
      found.push(`${element.nodeName} .${element.className} "${(element.textContent ?? '').trim().slice(0, 40)}" ` +
        `${Math.round(box.left)}..${Math.round(box.right)} in ${holder.className} ${Math.round(room.left)}..${Math.round(room.right)}`);
    }
  }
  return found.slice(0, 5);
}"""

# Small charts of tiles that stand side by side, at different heights.
CROOKED = """() => {
  const rows = new Map();
  for (const tile of document.querySelectorAll('.tile')) {
    const chart = tile.querySelector('.spark');
    if (!chart) continue;
    const [row, bottom] = [tile, chart].map((it, at) => Math.round(it.getBoundingClientRect()[at ? 'bottom' : 'top']));
    rows.set(row, [...(rows.get(row) ?? []), bottom]);
  }
  return [...rows.values()].filter(bottoms => Math.max(...bottoms) - Math.min(...bottoms) > 1);
}"""

AXE_RUN = """async rules => {
  const options = { resultTypes: ['violations'] };
  if (rules) options.runOnly = { type: 'rule', values: rules };
  const { violations } = await axe.run(document, options);
  return violations.map(({ id, impact, help, nodes }) => ({
    id, impact, help, nodes: nodes.slice(0, 4).map(node => `${node.html.slice(0, 160)} ${node.failureSummary ?? ''}`),
  }));
}"""


def assert_fits(page, where):
    """Neither the page nor anything on it is wider than its place."""
    wide = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert wide[0] <= wide[1], f"{where} scrolls sideways: {wide[0]} of {wide[1]} px {page.evaluate(OUTSIDE)}"
    outside = page.evaluate(OUTSIDE)
    assert not outside, f"{where}: outside of its card: " + "\n".join(outside)
    crooked = page.evaluate(CROOKED)
    assert not crooked, f"{where}: charts of tiles end at {crooked}"


def assert_accessible(page, where, rules=None):
    """Axe has no serious or critical finding."""
    if not page.evaluate("typeof axe === 'object'"):
        page.evaluate(AXE)
    found = [it for it in page.evaluate(AXE_RUN, rules) if it["impact"] in SERIOUS]
    lines = [f"{it['id']} ({it['impact']}): {it['help']}\n  " + "\n  ".join(it["nodes"]) for it in found]
    assert not found, f"{where}: axe: " + "\n".join(lines)


def assert_looks_right(page, path):
    """One page at every width and in both themes."""
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        for theme in THEMES:
            page.emulate_media(color_scheme=theme)
            where = f"{path} at {width} px, {theme}"
            assert_fits(page, where)
            # Layout differs by width, colour by theme: not every pair needs every rule.
            if (width, theme) in RULES:
                assert_accessible(page, where, RULES[width, theme])
    page.set_viewport_size({"width": 1440, "height": 900})
    page.emulate_media(color_scheme="light")
    say(f"looked at {path}")
