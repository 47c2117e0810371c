//! Charts as SVG text: lines or areas over time, sparklines, meters and grouped bars.
//!
//! A chart has CSS classes and no colours, so that the page decides how it looks in each theme; every chart has
//! `role="img"` and a sentence as its label. The same input gives the same text. Values that cannot be drawn (not a
//! number, infinite, negative) are gaps; no coordinate is outside the view box.
//!
//! Classes: `chart`, `spark`, `meter` and `bars` on the `svg` element; `grid`, `axis`, `tick`, `mark` and `marktext`
//! around the data; `area`, `line`, `dot` and `bar` together with the class of the series (`k-allowed`, `k-thr`,
//! `k-ref`, `k50`, `k95`, `k99`, `bad`, `warn`) on the data; `track` and `fill` in meters; `name` and `value` are the
//! texts of bars. [`legend`] uses the class of a series for its swatch.
//!
//! ```
//! use tollgate_chart::{Series, TimeChart};
//!
//! let refused = [Some(0.0), Some(12.0), None, Some(3.0)];
//! let chart = TimeChart {
//!     label: "Refused requests, 10:00 to 10:03: at most 12 in a minute, at 10:01.",
//!     times: &[1_431_856_800, 1_431_856_860, 1_431_856_920, 1_431_856_980],
//!     series: &[Series { name: "refused", class: "k-ref", values: &refused }],
//!     ..TimeChart::default()
//! };
//! assert!(chart.to_svg().contains(r#"class="line k-ref""#));
//! ```
#![forbid(unsafe_code)]

mod bars;
mod meter;
mod series;
mod size;
mod sparkline;
mod text;
mod time_axis;
mod time_chart;
mod value_axis;

pub use bars::{Bar, BarChart, BarGroup};
pub use meter::Meter;
pub use series::{Series, legend};
pub use size::{Size, for_both_widths};
pub use sparkline::Sparkline;
pub use text::{escaped, shown};
pub use time_axis::{TimeLabels, clock_time, date_and_time};
pub use time_chart::{Hover, Mark, Shape, TimeChart};
