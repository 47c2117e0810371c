//! Rows for people and for programs.

use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};
use serde_json::{Map, Value, json};

use crate::row::Row;
use crate::scale::Scale;

/// One line of JSON: name, ratio, bar, pass, and whatever else is known.
pub(crate) fn json(row: &Row, scale: &Scale) -> Value {
    let mut fields = Map::new();
    fields.insert("name".into(), json!(row.name));
    fields.insert("ratio".into(), json!(row.ratio));
    fields.insert("bar".into(), json!(row.bar.map(|bar| bar.to_string())));
    fields.insert("pass".into(), json!(scale.judge(row)));
    fields.insert("unit".into(), json!(row.unit));
    if let Some((least, largest)) = row.spread {
        fields.insert("spread".into(), json!([least, largest]));
    }
    for (name, figure) in &row.figures {
        fields.insert((*name).into(), json!(figure));
    }
    Value::Object(fields)
}

/// All rows as a table that is also Markdown.
pub(crate) fn table(rows: &[Row], scale: &Scale) -> String {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header(["name", "ratio", "bar", "", "rounds", "figures"]);
    for row in rows {
        let verdict = scale.judge(row).map_or("", |met| if met { "met" } else { "MISSED" });
        let spread =
            row.spread.map(|(least, largest)| format!("{}-{}", short(least), short(largest)));
        let figures = row.figures.iter().map(|(name, figure)| format!("{name} {}", short(*figure)));
        table.add_row([
            row.name.clone(),
            format!("{}{}", short(row.ratio), row.unit),
            row.bar.map(|bar| bar.to_string()).unwrap_or_default(),
            verdict.to_owned(),
            spread.unwrap_or_default(),
            figures.collect::<Vec<_>>().join(", "),
        ]);
    }
    if let Some(ratios) = table.column_mut(1) {
        ratios.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

/// Three digits or so, however large.
fn short(figure: f64) -> String {
    match figure.abs() {
        none if none < 1e-9 => "0".into(),
        small if small < 1.0 => format!("{figure:.4}"),
        medium if medium < 100.0 => format!("{figure:.2}"),
        _ => format!("{figure:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Bar;

    #[test]
    fn a_line_says_whether_the_bar_is_met() {
        let check = |ratio, bar: Option<Bar>, scale: &Scale, expected: &str| {
            let row = Row { bar, ..Row::figure("name", ratio, "x") };
            assert_eq!(json(&row, scale).to_string(), expected);
        };
        let full = &Scale::FULL;
        let met = r#"{"bar":">= 2.5","name":"name","pass":true,"ratio":2.5,"unit":"x"}"#;
        check(2.5, Some(Bar::AtLeast(2.5)), full, met);
        let missed = r#"{"bar":"< 2","name":"name","pass":false,"ratio":2.0,"unit":"x"}"#;
        check(2.0, Some(Bar::Below(2.0)), full, missed);
        let at_most = r#"{"bar":"<= 0","name":"name","pass":true,"ratio":0.0,"unit":"x"}"#;
        check(0.0, Some(Bar::AtMost(0.0)), full, at_most);
        let without = r#"{"bar":null,"name":"name","pass":null,"ratio":2.0,"unit":"x"}"#;
        check(2.0, None, full, without);
        let quick = r#"{"bar":"< 2","name":"name","pass":null,"ratio":2.0,"unit":"x"}"#;
        check(2.0, Some(Bar::Below(2.0)), &Scale::QUICK, quick);
    }

    #[test]
    fn figures_are_short() {
        let check = |figure, expected: &str| assert_eq!(short(figure), expected);
        check(0.0, "0");
        check(0.12345, "0.1235");
        check(1.305, "1.30");
        check(23.456, "23.46");
        check(12_345.6, "12346");
    }
}
