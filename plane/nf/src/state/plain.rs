//! Plain types: those that may lie in kept state.

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// A type of fixed size without pointers and padding, of which any bytes are a value. Made by
/// [`plain!`](crate::plain), or by hand for a type that derives the three traits of `zerocopy`.
pub trait Plain: FromBytes + IntoBytes + Immutable + Copy + 'static {
    /// Names and types of its fields: part of a table's schema, so that state of another program's layout is
    /// not taken for one's own.
    const FIELDS: &'static str;
}

macro_rules! numbers {
    ($($number:ident)*) => {
        $(impl Plain for $number {
            const FIELDS: &'static str = stringify!($number);
        })*
    };
}
numbers! { u8 u16 u32 u64 u128 i8 i16 i32 i64 i128 }

impl<T: Plain, const COUNT: usize> Plain for [T; COUNT] {
    const FIELDS: &'static str = T::FIELDS;
}

/// Declares structs that are [`Plain`](crate::state::Plain): `repr(C)`, and no padding, which is checked when
/// it is compiled.
///
/// ```
/// headgate_nf::plain! {
///     /// A connection.
///     pub struct Connection {
///         /// Packets of both directions.
///         packets: u64,
///         state: u32,
///         flags: [u8; 4],
///     }
/// }
/// ```
#[macro_export]
macro_rules! plain {
    ($($(#[$meta:meta])* $visible:vis struct $name:ident {
        $($(#[$field_meta:meta])* $field_visible:vis $field:ident: $kind:ty,)*
    })*) => {
        $(
            $(#[$meta])*
            #[derive(
                Clone, Copy, Debug, PartialEq, Eq,
                $crate::zerocopy::FromBytes, $crate::zerocopy::IntoBytes, $crate::zerocopy::Immutable,
            )]
            #[zerocopy(crate = "::headgate_nf::zerocopy")]
            #[repr(C)]
            $visible struct $name {
                $($(#[$field_meta])* $field_visible $field: $kind,)*
            }

            impl $crate::state::Plain for $name {
                const FIELDS: &'static str =
                    concat!("{", $(stringify!($field), ":", stringify!($kind), ","),* , "}");
            }
        )*
    };
}
