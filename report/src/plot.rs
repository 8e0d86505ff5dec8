//! What can be drawn.

/// A plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// Name of its file, without the ending.
    pub name: String,
    /// Title.
    pub title: String,
    /// What is drawn.
    pub drawing: Drawing,
}

/// What a plot shows.
#[derive(Clone, Debug, PartialEq)]
pub enum Drawing {
    /// Bars side by side in groups.
    Bars(Bars),
    /// Lines over a common axis.
    Lines(Lines),
    /// Bars made of parts.
    Stacks(Stacks),
    /// Who had what, and when.
    Spans(Spans),
}

/// An axis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Axis {
    /// Quantity, with its unit behind a comma where it has one.
    pub label: String,
    /// Whether equal steps are equal factors. What is not positive is left out then.
    pub logarithmic: bool,
}

impl Axis {
    /// Makes a linear axis.
    pub fn linear(label: impl Into<String>) -> Self {
        Self { label: label.into(), logarithmic: false }
    }

    /// Makes a logarithmic axis.
    pub fn logarithmic(label: impl Into<String>) -> Self {
        Self { label: label.into(), logarithmic: true }
    }
}

/// Bars side by side in groups, each with its interval. They start at 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bars {
    /// What groups are, for the axis below them.
    pub of: String,
    /// Names of groups. A dot may end a line of a name.
    pub groups: Vec<String>,
    /// Names of the bars of a group.
    pub series: Vec<String>,
    /// The bars.
    pub bars: Vec<Bar>,
    /// Axis of their heights.
    pub value: Axis,
}

impl Bars {
    /// Makes a plot without bars: what its groups are, and the axis of the bars.
    pub fn new(of: &str, value: Axis) -> Self {
        Self { of: of.to_owned(), value, ..Self::default() }
    }

    /// Adds a bar with its interval. Groups and series are in the order in which they are first named.
    pub fn add(&mut self, group: &str, series: &str, value: f64, interval: [f64; 2]) {
        let place = |names: &mut Vec<String>, name: &str| match names.iter().position(|known| known == name) {
            Some(at) => at,
            None => {
                names.push(name.to_owned());
                names.len() - 1
            }
        };
        let (group, series) = (place(&mut self.groups, group), place(&mut self.series, series));
        self.bars.push(Bar { group, series, value, interval });
    }
}

/// A bar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bar {
    /// Its group.
    pub group: usize,
    /// Its place among the series.
    pub series: usize,
    /// Its height.
    pub value: f64,
    /// Ends of its interval.
    pub interval: [f64; 2],
}

/// Lines over a common axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lines {
    /// Axis from left to right.
    pub x: Axis,
    /// Axis from below to above.
    pub y: Axis,
    /// The lines.
    pub series: Vec<Line>,
    /// Whether a value holds until the next point, as in a cumulative distribution.
    pub steps: bool,
}

/// A line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// Its name.
    pub name: String,
    /// Its points, from left to right.
    pub points: Vec<(f64, f64)>,
}

/// Horizontal bars made of parts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stacks {
    /// Names of the parts, the same for all bars.
    pub parts: Vec<String>,
    /// The bars.
    pub rows: Vec<Stack>,
    /// What the frames are, where there are some.
    pub frame: String,
    /// Axis of their lengths.
    pub value: Axis,
}

/// A bar made of parts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stack {
    /// Its name.
    pub name: String,
    /// Length of each part.
    pub parts: Vec<f64>,
    /// Length of a frame around the bar, of a quantity to compare it with.
    pub frame: Option<f64>,
    /// What stands at its end.
    pub total: String,
}

/// Who had what, and when: a lane for each thing that one at a time can have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spans {
    /// Names of the lanes.
    pub lanes: Vec<String>,
    /// Names of those who may have them.
    pub owners: Vec<String>,
    /// The spans.
    pub spans: Vec<Span>,
    /// The axis of time.
    pub time: Axis,
}

/// A time in which one had it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// The lane.
    pub lane: usize,
    /// Who had it.
    pub owner: usize,
    /// Begin and end.
    pub time: [f64; 2],
}
