//! Finds DPDK by pkg-config, makes the bindings from its headers and compiles the shim.

use std::env;
use std::path::PathBuf;

/// The release the crate was written against: what the drivers do inside (see `driver.rs` and
/// `packet_socket.rs`) is known of this one.
const RELEASE: &str = "22.11";

/// Libraries that we call directly. Drivers, buses and mempool handlers are loaded by EAL when it starts, so
/// a program that never starts EAL loads these few libraries and no driver.
const LIBRARIES: [&str; 4] = ["rte_ethdev", "rte_mbuf", "rte_mempool", "rte_eal"];

fn main() {
    println!("cargo:rerun-if-changed=src/shim.h");
    println!("cargo:rerun-if-changed=src/shim.c");
    let dpdk = pkg_config::Config::new()
        .range_version(RELEASE.."22.12")
        .cargo_metadata(false)
        .probe("libdpdk")
        .unwrap_or_else(|error| panic!("DPDK {RELEASE} is needed (Debian: libdpdk-dev): {error}"));
    for path in &dpdk.link_paths {
        println!("cargo:rustc-link-search=native={}", path.display());
    }
    let includes: Vec<String> =
        dpdk.include_paths.iter().map(|path| format!("-I{}", path.display())).collect();
    // Both from DPDK's own pkg-config file; the `pkg-config` crate does not hand them on.
    let flags = ["-include", "rte_config.h", "-march=corei7"];

    let mut shim = cc::Build::new();
    shim.file("src/shim.c").warnings(true).extra_warnings(true);
    for flag in includes.iter().map(String::as_str).chain(flags) {
        shim.flag(flag);
    }
    shim.compile("headgate_dpdk_shim");
    for library in LIBRARIES {
        println!("cargo:rustc-link-lib=dylib={library}");
    }

    let bindings = bindgen::Builder::default()
        .header("src/shim.h")
        .clang_args(includes.iter().map(String::as_str).chain(flags))
        .allowlist_function("hg_.*")
        .allowlist_function("rte_(eal_init|eal_get_runtime_dir|openlog_stream|strerror)")
        .allowlist_function("rte_(dev_probe|dev_remove|dev_dma_map|dev_dma_unmap)")
        .allowlist_function("rte_extmem_(register|unregister)")
        .allowlist_function("rte_eth_dev_(adjust_nb_rx_tx_desc|close|configure|get_mtu|get_port_by_name)")
        .allowlist_function("rte_eth_dev_(info_get|socket_id|start|stop)")
        .allowlist_function("rte_eth_(link_get_nowait|macaddr_get|promiscuous_enable|stats_get)")
        .allowlist_function("rte_eth_(rx_queue_setup|tx_queue_setup|tx_done_cleanup)")
        .allowlist_function("rte_mempool_(create_empty|free|obj_iter|populate_iova)")
        .allowlist_function("rte_mempool_(register_ops|set_ops_byname)")
        .allowlist_function("rte_pktmbuf_(free_bulk|init|pool_init)")
        .allowlist_type("rte_(mbuf_ext_shared_info|pktmbuf_pool_private)")
        .allowlist_var("HG_.*|RTE_EAL_PMD_PATH|RTE_MEMPOOL_F_NO_IOVA_CONTIG")
        .opaque_type("rte_(intr|trace|device|memzone|mempool_cache|eth_thresh).*")
        .wrap_unsafe_ops(true)
        .use_core()
        .derive_default(true)
        .generate_comments(false)
        .rust_edition(bindgen::RustEdition::Edition2024)
        .generate()
        .expect("bindgen reads DPDK's headers");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    bindings.write_to_file(out.join("bindings.rs")).expect("OUT_DIR can be written");
}
