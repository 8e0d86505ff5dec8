//! The facts of a machine that a measurement depends on, for benchmarks and `headgate doctor`.

use std::arch::x86_64::__cpuid;
use std::collections::BTreeMap;
use std::fs;

use serde::Serialize;

use crate::cgroup::CpuController;
use crate::clock;
use crate::cores;
use crate::files;
use crate::hugepages;

/// CPUID leaf 1, ECX bit 31: a hypervisor is present (reserved for it by Intel and AMD).
const CPUID_FEATURES: u32 = 1;
const HYPERVISOR_PRESENT: u32 = 1 << 31;
/// The leaf where hypervisors give their name, in EBX, ECX, EDX.
const CPUID_HYPERVISOR: u32 = 0x4000_0000;

/// Description of this machine. A fact that the machine does not tell is `None` (`null`).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Environment {
    /// Release and build of the kernel, as `uname -rv` prints them.
    pub kernel: Option<String>,
    /// The processor's name.
    pub cpu_model: Option<String>,
    /// The hypervisor's own name, such as `KVMKVMKVM`; `None` on bare metal.
    pub hypervisor: Option<String>,
    /// Cores that are online, such as `0-3`.
    pub cores_online: Option<String>,
    /// Cores that this process may use.
    pub cores_allowed: Option<String>,
    /// Cores kept free of other tasks at boot (`isolcpus`).
    pub cores_isolated: Option<String>,
    /// Whether two hardware threads share a core.
    pub smt_active: Option<bool>,
    /// Frequency governor of core 0, such as `performance`.
    pub frequency_governor: Option<String>,
    /// Memory of the machine, in bytes.
    pub memory_bytes: Option<u64>,
    /// Memory that can be had without swapping, in bytes.
    pub memory_available_bytes: Option<u64>,
    /// Pages of 2 MiB in the machine's pool.
    pub hugepages_total: Option<u64>,
    /// Number of them that nobody has touched yet.
    pub hugepages_free: Option<u64>,
    /// Whether ordinary shared memory may come in 2 MiB pages: `never`, `advise`, `always`, ….
    pub hugepages_transparent_shared: Option<String>,
    /// Control groups that can weigh CPU time.
    pub cpu_controller: CpuController,
    /// Time in each second that real-time tasks may use, in us; -1: all of it.
    pub real_time_us_per_second: Option<i64>,
    /// Whether the time stamp counter is time here.
    pub tsc_invariant: bool,
    /// The kernel's clock.
    pub clock_source: Option<String>,
    /// Hardware flaws the kernel works around, or does not: name and the kernel's words. Those
    /// that do not affect this processor are left out.
    pub mitigations: BTreeMap<String, String>,
    /// Tasks running or waiting for a core, averaged over the last minute.
    pub load_average: Option<f64>,
}

/// Returns the memory of the machine, in bytes.
pub fn memory_bytes() -> Option<u64> {
    kibibytes(&fs::read_to_string("/proc/meminfo").ok()?, "MemTotal")
}

impl Environment {
    /// Reads the facts from the machine.
    pub fn observe() -> Self {
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let pool = hugepages::pool().ok();
        let text_of_cores = |cores: Result<cores::CoreList, _>| cores.ok().map(|c| c.to_string());
        Self {
            kernel: kernel(),
            cpu_model: cpu_model(),
            hypervisor: hypervisor(),
            cores_online: text_of_cores(cores::online()),
            cores_allowed: text_of_cores(cores::allowed()),
            cores_isolated: word("/sys/devices/system/cpu/isolated"),
            smt_active: word("/sys/devices/system/cpu/smt/active").map(|active| active == "1"),
            frequency_governor: word("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            memory_bytes: kibibytes(&memory, "MemTotal"),
            memory_available_bytes: kibibytes(&memory, "MemAvailable"),
            hugepages_total: pool.map(|pool| pool.total),
            hugepages_free: pool.map(|pool| pool.free),
            hugepages_transparent_shared: hugepages::transparent_for_shared_memory(),
            cpu_controller: CpuController::find(),
            real_time_us_per_second: real_time_us_per_second(),
            tsc_invariant: clock::tsc_is_invariant(),
            clock_source: word("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            mitigations: mitigations(),
            load_average: load_average(),
        }
    }
}

/// The content of a file, if it has any.
fn word(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_string()).filter(|text| !text.is_empty())
}

fn kernel() -> Option<String> {
    let release = word("/proc/sys/kernel/osrelease")?;
    let version = word("/proc/sys/kernel/version")?;
    Some(format!("{release} {version}"))
}

fn cpu_model() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    files::field(&text, "model name").map(str::to_string)
}

fn hypervisor() -> Option<String> {
    if __cpuid(CPUID_FEATURES).ecx & HYPERVISOR_PRESENT == 0 {
        return None;
    }
    let leaf = __cpuid(CPUID_HYPERVISOR);
    let letters = [leaf.ebx, leaf.ecx, leaf.edx].map(u32::to_le_bytes);
    let name = String::from_utf8_lossy(letters.as_flattened());
    Some(name.trim_matches(|c: char| c == '\0' || c.is_whitespace()).to_string())
}

/// A line of `/proc/meminfo` such as `MemTotal:  24683520 kB`, in bytes.
fn kibibytes(text: &str, key: &str) -> Option<u64> {
    let number = files::field(text, key)?.strip_suffix(" kB")?;
    Some(number.trim().parse::<u64>().ok()? * 1024)
}

fn real_time_us_per_second() -> Option<i64> {
    let number = |name: &str| word(&format!("/proc/sys/kernel/{name}"))?.parse::<i64>().ok();
    let (runtime, period) = (number("sched_rt_runtime_us")?, number("sched_rt_period_us")?);
    match runtime {
        -1 => Some(-1),
        _ => runtime.checked_mul(1_000_000)?.checked_div(period),
    }
}

fn mitigations() -> BTreeMap<String, String> {
    let Ok(entries) = fs::read_dir("/sys/devices/system/cpu/vulnerabilities") else {
        return BTreeMap::new();
    };
    entries
        .filter_map(Result::ok)
        .filter_map(|entry| {
            let words = word(entry.path().to_str()?)?;
            let name = entry.file_name().into_string().ok()?;
            (words != "Not affected").then_some((name, words))
        })
        .collect()
}

fn load_average() -> Option<f64> {
    word("/proc/loadavg")?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_kernel_cores_and_memory() {
        let environment = Environment::observe();
        let release = rustix::system::uname();
        let release = release.release().to_str().unwrap();
        assert!(environment.kernel.unwrap().starts_with(release));
        assert!(environment.cores_online.is_some_and(|cores| cores.starts_with('0')));
        let (all, available) = (environment.memory_bytes, environment.memory_available_bytes);
        assert!(all.unwrap() >= available.unwrap());
    }

    #[test]
    fn it_serialises_as_one_flat_object() {
        let json = serde_json::to_value(Environment::observe()).unwrap();
        assert!(json["tsc_invariant"].is_boolean());
        assert!(json["mitigations"].is_object());
        assert!(json["cpu_controller"]["version"].is_string());
    }

    #[test]
    fn memory_is_told_in_kibibytes() {
        let text = "MemTotal:       24683520 kB\nHugePages_Total:       0\n";
        assert_eq!(kibibytes(text, "MemTotal"), Some(24683520 * 1024));
        assert_eq!(kibibytes(text, "HugePages_Total"), None);
        assert_eq!(kibibytes(text, "MemFree"), None);
    }
}
