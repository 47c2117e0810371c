//! Whatever is drawn: well-formed, inside of the view box, harmless, and the same each time.

use proptest::prelude::*;
use tollgate_chart::{
    Bar, BarChart, BarGroup, Hover, Mark, Meter, Series, Shape, Size, Sparkline, TimeChart, legend,
};

/// Walks over the markup, and fails where it is not well-formed XML of which no text is ours to worry about.
/// Returns each element with its attributes.
fn elements(xml: &str) -> Vec<(String, Vec<(String, String)>)> {
    let mut open: Vec<String> = Vec::new();
    let mut elements = Vec::new();
    let mut rest = xml;
    while let Some(start) = rest.find('<') {
        check_text(&rest[..start]);
        let end = rest[start..].find('>').expect("a tag ends") + start;
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "{xml}");
            continue;
        }
        let (tag, is_closed) = match tag.strip_suffix('/') {
            Some(tag) => (tag, true),
            None => (tag, false),
        };
        let (name, mut attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        let mut found = Vec::new();
        while !attributes.is_empty() {
            let (key, value) = attributes.split_once("=\"").expect("an attribute has a value");
            let (value, others) = value.split_once('"').expect("a value ends");
            assert!(key.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'), "{key}");
            check_text(value);
            found.push((key.to_owned(), value.to_owned()));
            attributes = others.trim_start();
        }
        elements.push((name.to_owned(), found));
        if !is_closed {
            open.push(name.to_owned());
        }
    }
    check_text(rest);
    assert!(open.is_empty(), "{open:?} in {xml}");
    elements
}

fn check_text(text: &str) {
    assert!(!text.contains(['<', '"', '\'']), "{text}");
    assert!(!text.chars().any(|c| c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c)));
    for (i, _) in text.match_indices('&') {
        let entities = ["&amp;", "&lt;", "&gt;", "&quot;", "&#39;"];
        assert!(entities.iter().any(|entity| text[i..].starts_with(entity)), "{text}");
    }
}

/// Everything that holds for each chart.
fn check(svg: &str) {
    let elements = elements(svg);
    let (name, attributes) = &elements[0];
    let attribute =
        |key: &str| attributes.iter().find(|(name, _)| name == key).map(|(_, value)| value);
    assert_eq!(name, "svg");
    assert_eq!(attribute("role").map(String::as_str), Some("img"));
    assert!(attribute("aria-label").is_some());
    let view_box: Vec<f64> =
        attribute("viewBox").unwrap().split(' ').map(|number| number.parse().unwrap()).collect();
    let (width, height) = (view_box[2], view_box[3]);
    let inside = |text: &str, most: f64| {
        let number: f64 = text.parse().expect("a number");
        assert!(number.is_finite() && (0.0..=most).contains(&number), "{text} of {most}: {svg}");
        assert!(text.split_once('.').is_none_or(|(_, decimals)| decimals.len() <= 2), "{text}");
        number
    };
    for (name, attributes) in &elements[1..] {
        let mut ends = (0.0, 0.0);
        for (key, value) in attributes {
            match key.as_str() {
                "x" | "width" => ends.0 += inside(value, width),
                "y" | "height" => ends.1 += inside(value, height),
                "x1" | "x2" | "cx" => drop(inside(value, width)),
                "y1" | "y2" | "cy" => drop(inside(value, height)),
                "d" => {
                    for point in value.split(['M', 'L', 'Z']).filter(|point| !point.is_empty()) {
                        let (x, y) = point.split_once(',').expect("a point");
                        inside(x, width);
                        inside(y, height);
                    }
                }
                "style" | "fill" | "stroke" => panic!("colours belong to the page: {svg}"),
                _ => {}
            }
        }
        assert!(ends.0 <= width + 0.02 && ends.1 <= height + 0.02, "{name} ends outside: {svg}");
    }
}

fn value() -> impl Strategy<Value = Option<f64>> {
    prop_oneof![
        2 => Just(None),
        8 => (0.0..5_000.0).prop_map(Some),
        2 => Just(Some(0.0)),
        1 => any::<f64>().prop_map(Some),
        1 => prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(f64::MAX), Just(-1.0), Just(1e-300)]
            .prop_map(Some),
    ]
}

fn values() -> impl Strategy<Value = Vec<Option<f64>>> {
    prop::collection::vec(value(), 0..40)
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z ]{0,30}",
        any::<String>(),
        Just("<script>alert('1')</script> & \"quotes\" ]]> \u{202e}\u{0}\u{7}\n".to_owned()),
    ]
}

fn times() -> impl Strategy<Value = Vec<i64>> {
    prop_oneof![
        (0i64..2_000_000_000, 1i64..100_000, 0usize..40)
            .prop_map(|(from, step, n)| (0..n as i64).map(|i| from + i * step).collect()),
        prop::collection::vec(any::<i64>(), 0..5),
    ]
}

proptest! {
    #[test]
    fn time_charts_are_sound(
        times in times(),
        rows in prop::collection::vec(values(), 0..4),
        (label, name, unit) in (text(), text(), "[/ a-z%]{0,4}"),
        (at, mark) in (any::<i64>(), text()),
        (width, height) in (0u16..1_200, 0u16..400),
        is_stacked in any::<bool>(),
        hover in prop_oneof![Just(Hover::None), Just(Hover::Titles), Just(Hover::Data)],
        span in prop::option::of((any::<i64>(), any::<i64>())),
    ) {
        let series: Vec<Series<'_>> =
            rows.iter().map(|values| Series { name: &name, class: "k-ref", values }).collect();
        let middle = times.get(times.len() / 2).copied().unwrap_or(at);
        let chart = TimeChart {
            label: &label,
            times: &times,
            series: &series,
            shape: if is_stacked { Shape::Stacked } else { Shape::Lines },
            unit: &unit,
            marks: &[Mark { at: middle, name: &mark, title: &name }, Mark { at, name: "", title: "" }],
            span,
            size: Size { width, height },
            hover,
            ..TimeChart::default()
        };
        let svg = chart.to_svg();
        check(&svg);
        prop_assert_eq!(svg, chart.to_svg());
    }

    #[test]
    fn small_charts_are_sound(
        values in values(),
        (label, class) in (text(), text()),
        (part, whole) in (value(), value()),
        (width, height) in (0u16..300, 0u16..80),
    ) {
        let size = Size { width, height };
        check(&Sparkline { label: &label, values: &values, class: &class, size }.to_svg());
        let (value, whole) = (part.unwrap_or(0.0), whole.unwrap_or(0.0));
        check(&Meter { label: &label, value, whole, class: &class }.to_svg());
    }

    #[test]
    fn bars_are_sound(
        rows in prop::collection::vec((text(), values()), 0..8),
        (label, figure) in (text(), text()),
        width in 0u16..1_200,
    ) {
        let bars: Vec<Vec<Bar<'_>>> = rows
            .iter()
            .map(|(class, values)| {
                let bar = |value: &Option<f64>| Bar { class, value: value.unwrap_or(f64::NAN), text: &figure };
                values.iter().map(bar).collect()
            })
            .collect();
        let groups: Vec<BarGroup<'_>> = rows
            .iter()
            .zip(&bars)
            .map(|((name, _), bars)| BarGroup { name, bars })
            .collect();
        check(&BarChart { label: &label, groups: &groups, width }.to_svg());
    }
}

#[test]
fn a_line_breaks_where_there_is_no_data() {
    let values =
        [Some(1.0), Some(2.0), None, Some(f64::NAN), Some(3.0), Some(4.0), None, Some(2.0)];
    let times: Vec<i64> = (0..8).map(|i| 1_431_856_800 + i * 60).collect();
    let chart = TimeChart {
        label: "Requests",
        times: &times,
        series: &[Series { name: "p50", class: "k50", values: &values }],
        unit: " ms",
        ..TimeChart::default()
    };
    let svg = chart.to_svg();
    let path = svg.split(r#"<path class="line k50" d=""#).nth(1).expect("a line");
    let path = path.split('"').next().unwrap();
    assert_eq!(path.matches('M').count(), 2, "{path}");
    assert!(svg.contains(r#"<circle class="dot k50""#), "a single point is seen: {svg}");
    assert!(svg.contains(">4 ms</text>") && svg.contains(">10:05</text>"), "{svg}");
}

#[test]
fn areas_stand_on_each_other() {
    let allowed = [Some(10.0), Some(10.0), None];
    let refused = [Some(10.0), None, None];
    let chart = TimeChart {
        label: "Requests",
        times: &[0, 60, 120],
        series: &[
            Series { name: "allowed", class: "k-allowed", values: &allowed },
            Series { name: "refused", class: "k-ref", values: &refused },
        ],
        shape: Shape::Stacked,
        size: Size { width: 220, height: 136 },
        ..TimeChart::default()
    };
    let svg = chart.to_svg();
    // From 12 (20 requests) to 112 (none); "20" and a gap are 20.8 wide.
    let expected = [
        r#"<path class="area k-allowed" d="M20.8,62L114.4,62L114.4,112L20.8,112Z"/>"#,
        r#"<path class="area k-ref" d="M20.8,12L114.4,62L114.4,62L20.8,62Z"/>"#,
    ];
    assert!(expected.iter().all(|path| svg.contains(path)), "{svg}");
}

#[test]
fn a_script_finds_the_values() {
    let chart = TimeChart {
        label: "Requests",
        times: &[60, 120],
        series: &[Series { name: "a \"b\" \\", class: "k-ref", values: &[Some(1.255), None] }],
        unit: "/s",
        hover: Hover::Data,
        ..TimeChart::default()
    };
    let svg = chart.to_svg();
    assert!(svg.contains(r#"data-times="[60,120]""#), "{svg}");
    let series = r#"[{"name":"a \"b\" \\","class":"k-ref","values":[1.25,null]}]"#;
    let series = series.replace('"', "&quot;");
    assert!(svg.contains(&format!(r#"data-series="{series}""#)), "{svg}");
    assert!(svg.contains(r#"data-span="60 120""#) && svg.contains(r#"tabindex="0""#), "{svg}");
}

#[test]
fn without_data_there_are_still_axes() {
    let svg = TimeChart { label: "No requests", ..TimeChart::default() }.to_svg();
    check(&svg);
    assert!(svg.contains(r#"class="axis""#) && !svg.contains("<path"), "{svg}");
}

#[test]
fn small_parts_are_seen() {
    let meter = |value, whole| Meter { label: "", value, whole, class: "" }.to_svg();
    assert!(meter(1.0, 1e6).contains(r#"width="0.5""#));
    assert!(meter(0.0, 1e6).contains(r#"width="0""#));
    assert!(meter(5.0, 0.0).contains(r#"width="0""#));
    assert!(meter(9.0, 3.0).contains(r#"class="fill" x="0" y="0" width="100""#));
}

#[test]
fn legends_are_escaped() {
    assert_eq!(
        legend(&[("k-ref", "<refused>")]),
        r#"<span class="legend"><span><i class="k-ref"></i>&lt;refused&gt;</span></span>"#
    );
}
