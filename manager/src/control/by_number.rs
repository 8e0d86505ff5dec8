//! Values by number; nothing is kept for a number that was not asked for.

/// Values by the number of a chain or an instance.
#[derive(Debug, Default)]
pub struct ByNumber<T>(Vec<Option<Box<T>>>);

impl<T: Default> ByNumber<T> {
    /// Returns the value of a number, made if there is none.
    pub fn at(&mut self, number: u16) -> &mut T {
        let number = usize::from(number);
        if self.0.len() <= number {
            self.0.resize_with(number + 1, || None);
        }
        self.0[number].get_or_insert_default()
    }

    /// Returns the value of a number, if there is one.
    pub fn get(&self, number: u16) -> Option<&T> {
        self.0.get(usize::from(number))?.as_deref()
    }
}
