//! Tables for a terminal: texts to the left, figures to the right, no lines.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use crate::terminal::printable;

/// A column of a table, by its name.
#[derive(Clone, Copy)]
pub(crate) enum Column {
    Text(&'static str),
    Figure(&'static str),
}

/// A table. Without names of columns it has no header.
pub(crate) fn table<const N: usize>(columns: [Column; N], rows: &[[String; N]]) -> String {
    rows_of(&columns, rows)
}

/// A table whose columns are known at run time only; each row has a cell for each of them.
pub(crate) fn rows_of(columns: &[Column], rows: &[impl AsRef<[String]>]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    let names = columns.iter().map(|(Column::Text(name) | Column::Figure(name))| *name);
    if names.clone().any(|name| !name.is_empty()) {
        table.set_header(names);
    }
    for row in rows {
        table.add_row(row.as_ref().iter().map(|cell| printable(cell)));
    }
    for (column, kind) in table.column_iter_mut().zip(columns) {
        if matches!(kind, Column::Figure(_)) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().fold(String::new(), |lines, line| lines + line.trim_end() + "\n")
}
