//! Gives the shared library its name for the dynamic linker: it changes with `HG_ABI_VERSION` alone.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libheadgate_nf.so.1");
    println!("cargo:rerun-if-changed=build.rs");
}
