//! One Rust file: its text, its tokens, and its items without tests.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Attribute, ImplItem, Item};

use crate::tokens::{Token, flat};

/// A Rust file, parsed.
pub struct SourceFile {
    /// Path from the root of the workspace.
    pub path: String,
    /// Its text.
    pub text: String,
    /// Its tokens, tests and doc comments included.
    pub stream: TokenStream,
    /// Its items without those that only tests see; none in a file of tests.
    pub items: Vec<Item>,
    /// Whether only tests see it.
    pub is_test: bool,
}

impl SourceFile {
    /// Returns every token of it.
    pub fn tokens(&self) -> Vec<Token> {
        flat(self.stream.clone())
    }

    /// Returns the tokens of what is not a test.
    pub fn code(&self) -> Vec<Token> {
        self.items.iter().flat_map(|item| flat(item.to_token_stream())).collect()
    }
}

/// Removes the items that only tests see, in modules and `impl` blocks too.
pub fn without_tests(items: &mut Vec<Item>) {
    items.retain(|item| !is_test_only(attributes(item)));
    for item in items {
        match item {
            Item::Mod(module) => {
                if let Some((_, inner)) = &mut module.content {
                    without_tests(inner);
                }
            }
            Item::Impl(block) => block.items.retain(|item| match item {
                ImplItem::Const(item) => !is_test_only(&item.attrs),
                ImplItem::Fn(item) => !is_test_only(&item.attrs),
                ImplItem::Type(item) => !is_test_only(&item.attrs),
                _ => true,
            }),
            _ => {}
        }
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Returns whether attributes keep an item for tests: `#[test]`, or a `cfg` that needs `test`.
pub fn is_test_only(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let is_cfg = || attribute.path().is_ident("cfg");
        attribute.path().is_ident("test") || is_cfg() && needs_test(attribute.meta.to_token_stream())
    })
}

fn needs_test(condition: TokenStream) -> bool {
    let mut is_negated = false;
    condition.into_iter().any(|tree| match tree {
        TokenTree::Ident(word) => {
            is_negated = word == "not";
            word == "test"
        }
        TokenTree::Group(group) => !std::mem::take(&mut is_negated) && needs_test(group.stream()),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let mut items = syn::parse_file(text).expect("Rust").items;
        without_tests(&mut items);
        items
            .iter()
            .flat_map(|item| flat(item.to_token_stream()))
            .filter_map(|token| token.word().map(str::to_owned))
            .filter(|word| word.len() == 1)
            .collect()
    }

    #[test]
    fn items_of_tests_are_left_out() {
        let text =
            "fn a() {} #[test] fn b() {} #[cfg(test)] mod c {} #[cfg(all(test, feature = \"x\"))] use d::e;
            #[cfg(not(test))] fn f() {} #[cfg(feature = \"test\")] fn g() {}
            impl h { #[cfg(test)] fn i() {} fn j() {} }
            mod k { #[cfg(test)] fn l() {} fn m() {} }";
        assert_eq!(names(text), ["a", "f", "g", "h", "j", "k", "m"]);
    }
}
