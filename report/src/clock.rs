//! Times as text.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns a time in UTC, so that names are in its order: `20261123-154005`.
pub(crate) fn stamp(now: SystemTime) -> String {
    let [year, month, day, hour, minute, second] = fields(now);
    format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")
}

/// Returns a time in UTC for people and programs (RFC 3339): `2026-11-23T15:40:05Z`.
pub(crate) fn utc(now: SystemTime) -> String {
    let [year, month, day, hour, minute, second] = fields(now);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

fn fields(now: SystemTime) -> [u64; 6] {
    let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    let [year, month, day] = date(days);
    [year, month, day, of_day / 3600, of_day / 60 % 60, of_day % 60]
}

/// Returns year, month and day, so many days after the first of January 1970. Years begin in March here,
/// so that the leap day is their last one; 400 years have 146,097 days.
fn date(days: u64) -> [u64; 3] {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let of_era_years = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * of_era_years + of_era_years / 4 - of_era_years / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    [era * 400 + of_era_years + u64::from(month <= 2), month, day]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_time_is_a_name() {
        let of = |seconds| stamp(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(of(0), "19700101-000000");
        assert_eq!(of(951_782_399), "20000228-235959");
        assert_eq!(of(951_782_400), "20000229-000000");
        assert_eq!(of(1_795_448_405), "20261123-154005");
        assert_eq!(utc(UNIX_EPOCH + Duration::from_secs(1_795_448_405)), "2026-11-23T15:40:05Z");
    }
}
