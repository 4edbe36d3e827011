//! A small table for a terminal: first column left, the others right. Pure; units belong into the headings.

use std::fmt;

/// Rows under headings.
#[derive(Debug, Clone)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table.
    #[must_use]
    pub fn new(headings: &[&str]) -> Self {
        Self { rows: vec![headings.iter().map(|&heading| heading.to_owned()).collect()] }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: &[&dyn fmt::Display]) {
        self.rows.push(cells.iter().map(ToString::to_string).collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                if column == 0 { write!(f, "{cell:<width$}")? } else { write!(f, "  {cell:>width$}")? }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// A number with three digits that count, or `-` where nothing was measured.
#[must_use]
pub fn figure(value: f64) -> String {
    match value.abs() {
        _ if !value.is_finite() => "-".to_owned(),
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.9995 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_under_their_headings() {
        let mut table = Table::new(&["what", "us"]);
        table.row(&[&"one pass", &figure(123.4)]);
        table.row(&[&"x", &figure(f64::NAN)]);
        assert_eq!(table.to_string(), "what       us\none pass  123\nx           -\n");
    }

    #[test]
    fn figures_keep_three_digits() {
        let shown: Vec<String> = [1234.5, 12.345, 1.2345, 0.01234].map(figure).into();
        assert_eq!(shown, ["1234", "12.3", "1.23", "0.012"]);
    }
}
