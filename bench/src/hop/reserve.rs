//! Pages of 2 MiB for variants that need them, reserved where too few are free, and given back.

use headgate_host::hugepages;
use headgate_host::undo::{Action, Janitor};

use super::scenario::{HUGE_PAGES, Pages};
use super::variants::Variant;

/// What was reserved. Dropped, or when this process dies, it is given back.
pub(super) struct Reserved {
    janitor: Option<Janitor>,
    pages: u64,
}

/// Reserves what variants need and is not free.
///
/// # Errors
/// Memory is too scattered, or pages are not ours to reserve.
pub(super) fn reserve_for(wanted: &[Variant]) -> anyhow::Result<Reserved> {
    let none = Reserved { janitor: None, pages: 0 };
    if !wanted.iter().any(|variant| variant.pages() == Some(Pages::Huge)) {
        return Ok(none);
    }
    let pages = HUGE_PAGES.saturating_sub(hugepages::pool()?.available());
    if pages == 0 {
        return Ok(none);
    }
    let janitor = Janitor::start()?;
    hugepages::reserve(pages)?;
    let told = janitor.register(Action::GiveBackHugepages { pages });
    if let Err(error) = told {
        hugepages::give_back(pages)?;
        return Err(error.into());
    }
    Ok(Reserved { janitor: Some(janitor), pages })
}

impl Reserved {
    /// Gives back what was reserved, and says so.
    pub fn give_back(mut self, notes: &mut Vec<String>) {
        let Some(janitor) = self.janitor.take() else { return };
        notes.push(match janitor.finish() {
            Ok(()) => format!("{} pages of 2 MiB were reserved, and given back", self.pages),
            Err(error) => {
                format!("{} pages of 2 MiB were reserved and could not be given back: {error}", self.pages)
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hop::variants::VARIANTS;

    #[test]
    fn nothing_is_reserved_for_those_who_need_none() {
        let others: Vec<Variant> =
            VARIANTS.into_iter().filter(|one| one.pages() != Some(Pages::Huge)).collect();
        let mut notes = Vec::new();
        let reserved = reserve_for(&others).unwrap();
        assert_eq!((reserved.pages, reserved.janitor.is_none()), (0, true));
        reserved.give_back(&mut notes);
        assert!(notes.is_empty() && others.len() == VARIANTS.len() - 2);
    }
}
