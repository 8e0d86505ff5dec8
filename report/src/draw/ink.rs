//! Colours, on a light page and on a dark one.

use std::fmt::Write as _;

use plotters::style::RGBColor;

/// A colour: what it is in the light, and in the dark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ink {
    light: u32,
    dark: u32,
}

impl Ink {
    /// The page.
    pub const PAGE: Self = Self { light: 0xFF_FFFF, dark: 0x16_191D };
    /// Words and numbers.
    pub const TEXT: Self = Self { light: 0x1F_2328, dark: 0xE6_EDF3 };
    /// Words beside the point.
    pub const QUIET: Self = Self { light: 0x56_5F69, dark: 0x9D_A7B3 };
    /// Lines of the grid.
    pub const GRID: Self = Self { light: 0xE4_E7EB, dark: 0x2C_3138 };
    /// The line at zero.
    pub const ZERO: Self = Self { light: 0x6E_7781, dark: 0x8B_949E };
    /// Words on what is dark on a light page.
    pub const ON_DARK: Self = Self { light: 0xFE_FEFE, dark: 0x10_1214 };
    /// Words on what is light on every page.
    pub const ON_LIGHT: Self = Self { light: 0x11_1111, dark: 0x11_1111 };

    /// Colours that people with any colour vision tell apart (Okabe, Ito, 2008), its yellow and its black
    /// replaced, which are not seen on one of the pages. They differ in lightness, too.
    const SERIES: [Self; 8] = [
        Self { light: 0x8A_8F96, dark: 0x9A_A0A8 },
        Self { light: 0xE6_9F00, dark: 0xF0_B429 },
        Self { light: 0x56_B4E9, dark: 0x56_B4EA },
        Self { light: 0x00_9E73, dark: 0x1F_BF90 },
        Self { light: 0x00_72B2, dark: 0x4F_8FD6 },
        Self { light: 0xD5_5E00, dark: 0xF0_7D2E },
        Self { light: 0xCC_79A7, dark: 0xDD_94BD },
        Self { light: 0x6A_4C93, dark: 0xA9_8FD8 },
    ];

    /// Colours of parts of a bar, in families that differ in lightness: four blue ones, two green ones, two
    /// warm ones and violet.
    const PARTS: [Self; 9] = [
        Self::same(0xD0_E1F2),
        Self::same(0x94_C4DF),
        Self::same(0x4A_98C9),
        Self { light: 0x17_64AB, dark: 0x2F_7FC8 },
        Self::same(0xB5_E0AE),
        Self::same(0x3D_9A50),
        Self::same(0xE6_550D),
        Self::same(0xFD_AE6B),
        Self::same(0x8C_6BB1),
    ];

    const fn same(colour: u32) -> Self {
        Self { light: colour, dark: colour }
    }

    /// Returns the colour of a series.
    pub fn series(number: usize) -> Self {
        Self::SERIES[number % Self::SERIES.len()]
    }

    /// Returns the colour of a part.
    pub fn part(number: usize) -> Self {
        Self::PARTS[number % Self::PARTS.len()]
    }

    /// Returns the colour of words on this one.
    pub fn words_on(self) -> Self {
        let [_, red, green, blue] = self.light.to_be_bytes().map(u32::from);
        // The eye's parts of the three (ITU-R BT.601), in thousandths.
        let lightness = (299 * red + 587 * green + 114 * blue) / 1000;
        if lightness < 128 { Self::ON_DARK } else { Self::ON_LIGHT }
    }

    pub(super) fn light(self) -> RGBColor {
        let [_, red, green, blue] = self.light.to_be_bytes();
        RGBColor(red, green, blue)
    }

    /// Returns the rules of a style sheet that replace colours where the page is dark. A rule precedes the
    /// attribute of an element, so nothing but the rule differs.
    pub fn rules() -> String {
        let all = [Self::PAGE, Self::TEXT, Self::QUIET, Self::GRID, Self::ZERO, Self::ON_DARK];
        let mut rules = String::from("@media (prefers-color-scheme:dark){");
        for Self { light, dark } in all.into_iter().chain(Self::SERIES).chain(Self::PARTS) {
            if light != dark {
                let _ = write!(
                    rules,
                    "svg [fill=\"#{light:06X}\"]{{fill:#{dark:06X}}}svg [stroke=\"#{light:06X}\"]{{stroke:#{dark:06X}}}"
                );
            }
        }
        rules.push('}');
        rules
    }
}
