//! Processor, cores, memory and kernel.

use headgate_host::cgroup::reserve::Cpusets;
use headgate_host::cgroup::{CpuController, GroupTree, Hierarchy, all_that_is};
use headgate_host::cores::{self, CoreList, Cpuset};
use headgate_host::credentials::{self, Capability, has_capability};
use headgate_host::environment::Environment;
use headgate_host::hugepages;
use headgate_host::sched::{self, Policy, SchedError};
use headgate_units::text as units;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use super::check::Check;
use super::fix;

/// The newest things we ask of the kernel: `CLOSE_RANGE_CLOEXEC` (Linux 5.11).
const KERNEL_MIN: (u32, u32) = (5, 11);

/// Runs all checks of the machine.
pub fn checks(environment: &Environment) -> Vec<Check> {
    let mut checks = vec![
        kernel(environment),
        cores_check(),
        clock(environment),
        shared_memory(),
        memory(environment),
        hugepages_check(),
        large_shared_pages(environment),
        memory_limit(),
        control_groups(environment),
        reserving(),
        policies(),
        slices(),
        real_time(environment),
    ];
    checks.extend(sharing(environment));
    checks
}

fn kernel(environment: &Environment) -> Check {
    let Some(found) = environment.kernel.clone() else {
        return Check::fail("kernel", "/proc/sys/kernel is not there", "mount /proc");
    };
    match version(&found) {
        Some(version) if version < KERNEL_MIN => Check::fail(
            "kernel",
            found,
            format!("Linux {}.{} or later is needed", KERNEL_MIN.0, KERNEL_MIN.1),
        ),
        _ => Check::ok("kernel", found),
    }
}

/// Major and minor number of a release such as `6.1.0-18-amd64`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn cores_check() -> Check {
    let (online, allowed) = match (cores::online(), cores::allowed()) {
        (Ok(online), Ok(allowed)) => (online, allowed),
        (Err(error), _) | (_, Err(error)) => {
            return Check::failed("cores", error);
        }
    };
    let found = match online == allowed {
        true => format!("{} online, all may be used: {allowed}", online.len()),
        false => format!("{} online, {} may be used: {allowed}", online.len(), allowed.len()),
    };
    let mask = cores::given().unwrap_or_default();
    if let Some(limited) = limited(&found, cores::cpuset(), &allowed, &mask) {
        return limited;
    }
    match allowed.len() {
        1 => Check::warn(
            "cores",
            found,
            "with two, workers and NFs do not wait for each other; with one everything shares it",
        ),
        _ => Check::ok("cores", found),
    }
}

/// Returns what keeps this program off some cores, if something does.
fn limited(found: &str, cpuset: Option<Cpuset>, allowed: &CoreList, mask: &CoreList) -> Option<Check> {
    if let Some(Cpuset { name, cure }) = cpuset {
        return Some(Check::warn("cores", format!("{found}, by {name}"), cure));
    }
    let is_narrow = allowed.as_slice().iter().any(|core| !mask.contains(*core));
    (is_narrow && !mask.is_empty()).then(|| {
        let cure = "where a file names no core, those of the mask are taken; start without it to have all \
                    (`taskset`; `CPUAffinity=` of a unit)";
        Check::warn("cores", format!("{found}; the affinity mask holds {mask}"), cure)
    })
}

/// Two hardware threads that share a core slow each other down.
fn sharing(environment: &Environment) -> Option<Check> {
    (environment.smt_active == Some(true)).then(|| {
        Check::warn(
            "core sharing",
            "hardware threads share cores (SMT)",
            "put workers and NFs on threads of different cores; see /sys/devices/system/cpu/cpu*/topology",
        )
    })
}

fn clock(environment: &Environment) -> Check {
    let source = environment.clock_source.as_deref().unwrap_or("unknown");
    match environment.tsc_invariant {
        true => Check::ok("clock", format!("the time stamp counter is steady (clock source {source})")),
        false => Check::warn(
            "clock",
            format!(
                "the time stamp counter is not steady, so times cost a system call (clock source {source})"
            ),
            "use a machine or hypervisor with an invariant TSC",
        ),
    }
}

/// Tries what `policy` of an NF can say, each in a thread of its own, which ends at once.
fn policies() -> Check {
    const NAME: &str = "policies";
    let all = [
        ("normal", Policy::Normal { nice: 0, slice_ns: None }),
        ("batch", Policy::Batch { nice: 0, slice_ns: None }),
        ("rr", Policy::RoundRobin { priority: 1 }),
        ("fifo", Policy::Fifo { priority: 1 }),
    ];
    let mut refused = None;
    let mut allowed = Vec::new();
    for (word, policy) in all {
        match try_policy(policy) {
            Ok(()) => allowed.push(word),
            Err(error) => refused = Some(error),
        }
    }
    let found = format!("NFs may be {}", allowed.join(", "));
    match refused {
        None => Check::ok(NAME, found),
        Some(error) => Check::warn(NAME, found, error.to_string()),
    }
}

fn try_policy(policy: Policy) -> Result<(), SchedError> {
    let tried = std::thread::spawn(move || sched::set(None, policy)).join();
    tried.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Checks whether a task may ask for the length of its time slices.
fn slices() -> Check {
    const NAME: &str = "slices";
    let slice_ns = Some(sched::SLICE_NS_MIN);
    match try_policy(Policy::Normal { nice: 0, slice_ns }) {
        Ok(()) => Check::ok(NAME, "each NF may have its own (slice_us), 100 to 100000 us"),
        Err(error) => Check::warn(NAME, error.to_string(), "leave `slice_us` out; nothing else needs it"),
    }
}

/// Makes what the packet memory is made of.
fn shared_memory() -> Check {
    let make = || -> Result<(), Errno> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("headgate-doctor", flags)?;
        rustix::fs::ftruncate(&file, 4096)?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::FUTURE_WRITE)
    };
    match make() {
        Ok(()) => Check::ok("shared memory", "sealed anonymous files (memfd) can be made"),
        Err(error) => Check::fail(
            "shared memory",
            format!("a sealed anonymous file (memfd) cannot be made: {error}"),
            "Linux 5.1 or later is needed, and a container that allows memfd_create",
        ),
    }
}

fn memory(environment: &Environment) -> Check {
    let needed = fix::default_region_bytes();
    let Some(available) = environment.memory_available_bytes else {
        return Check::warn("memory", "the kernel does not say how much is available", "mount /proc");
    };
    let found = format!(
        "{} available; the packets of a default configuration take {}",
        units::bytes(available),
        units::bytes(needed)
    );
    match available < 2 * needed {
        true => Check::fail("memory", found, "free some, or lower memory.buffers"),
        false => Check::ok("memory", found),
    }
}

fn hugepages_check() -> Check {
    let needed = fix::default_hugepages();
    let pool = match hugepages::pool() {
        Ok(pool) => pool,
        Err(error) => {
            return Check::warn("hugepages", error.to_string(), "ordinary pages work, a little slower");
        }
    };
    let found = format!(
        "{} of 2 MiB available, {} in the pool; a default configuration takes {needed}",
        pool.available(),
        pool.total
    );
    match pool.available() < needed {
        true => Check::warn(
            "hugepages",
            found,
            "`headgate doctor --fix` reserves them; without, ordinary pages serve",
        ),
        false => Check::ok("hugepages", found),
    }
}

fn large_shared_pages(environment: &Environment) -> Check {
    const NAME: &str = "large shared pages";
    match environment.hugepages_transparent_shared.as_deref() {
        None => Check::ok(NAME, "this kernel cannot make shared memory of large pages by itself"),
        Some(word @ ("never" | "deny")) => {
            Check::ok(NAME, format!("{word}: packet memory gets large pages only from the pool of hugepages"))
        }
        Some(word) => {
            Check::ok(NAME, format!("{word}: the kernel may give packet memory large pages by itself"))
        }
    }
}

fn memory_limit() -> Check {
    const NAME: &str = "locked memory";
    // Devices that fetch packets themselves want them locked; nothing else does.
    match getrlimit(Resource::Memlock).current {
        None => Check::ok(NAME, "no limit"),
        Some(_) if has_capability(Capability::IpcLock) => Check::ok(NAME, "no limit for this user"),
        Some(limit) if limit >= fix::default_region_bytes() => {
            Check::ok(NAME, format!("up to {}", units::bytes(limit)))
        }
        Some(limit) => Check::warn(
            NAME,
            format!(
                "up to {} (ulimit -l); AF_XDP ports and network cards need all packet memory",
                units::bytes(limit)
            ),
            "run as root, `ulimit -l unlimited`, or LimitMEMLOCK=infinity in the unit",
        ),
    }
}

/// Makes groups as a manager does for its NFs, and removes them.
fn control_groups(environment: &Environment) -> Check {
    const NAME: &str = "control groups";
    let version = match &environment.cpu_controller {
        CpuController::V1(mount) => format!("CPU weights by version 1 at {}", mount.display()),
        CpuController::V2(mount) => format!("CPU weights by version 2 at {}", mount.display()),
        CpuController::None => "no CPU weights".to_owned(),
    };
    let name = format!("headgate-doctor-{}", std::process::id());
    let tree = GroupTree::make(&name, &Hierarchy::all(), &mut |_| {});
    let missing = all_that_is(tree.missing());
    // Not made, it is not to be removed.
    let _ = tree.remove();
    let Some(missing) = missing else {
        return Check::ok(NAME, format!("{version}; NFs are held on their cores, limited and ended whole"));
    };
    Check::warn(
        NAME,
        format!("{version}; {missing}"),
        "run the manager as root on a machine whose control groups have the cpu, cpuset, pids and memory controllers",
    )
}

/// Checks whether `reserve_cores` can be had.
fn reserving() -> Check {
    const NAME: &str = "cores kept free";
    let allowed = cores::allowed().map_or(0, |cores| cores.len());
    match Cpusets::find() {
        Err(error) => Check::warn(NAME, error.to_string(), "all else works; leave `reserve_cores` out"),
        Ok(_) if !credentials::is_root() => {
            Check::warn(NAME, "`reserve_cores` takes root", "run the manager as root, or leave it out")
        }
        Ok(_) if allowed < 2 => {
            Check::warn(NAME, "there is one core, and other programs need it", "leave `reserve_cores` out")
        }
        Ok(cpusets) => match cpusets.abandoned().first() {
            Some(path) => Check::warn(
                NAME,
                format!(
                    "a manager that was killed left {}: programs in it are kept off cores",
                    path.display()
                ),
                "the next `headgate up`, as root, gives them back",
            ),
            None => Check::ok(NAME, format!("cpusets version 1 at {}", cpusets.top().display())),
        },
    }
}

fn real_time(environment: &Environment) -> Check {
    const NAME: &str = "real time";
    match environment.real_time_us_per_second {
        None => Check::ok(NAME, format!("the kernel sets no bound to real-time tasks{}", quantum())),
        Some(-1) => Check::ok(NAME, format!("real-time tasks may use all of a core{}", quantum())),
        Some(us) => {
            let stall = 1_000_000_i64.saturating_sub(us) / 1000;
            let found = format!("real-time tasks may use {} ms of a second{}", us / 1000, quantum());
            Check {
                cure: Some(format!(
                    "a polling NF of a real-time class stalls {stall} ms in each second, unless \
                     `sysctl kernel.sched_rt_runtime_us=-1`"
                )),
                ..Check::ok(NAME, found)
            }
        }
    }
}

/// The time slice of round-robin tasks, where the kernel tells it.
fn quantum() -> String {
    sched::round_robin_quantum_ms().map_or(String::new(), |ms| format!("; a time slice of rr takes {ms} ms"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::check::Verdict;

    #[test]
    fn releases_are_read() {
        assert_eq!(version("6.1.0-18-amd64 #1 SMP"), Some((6, 1)));
        assert_eq!(version("5.11"), Some((5, 11)));
        assert_eq!(version("unknown"), None);
    }

    #[test]
    fn what_keeps_us_off_a_core_is_named() {
        let list = |text: &str| text.parse::<CoreList>().unwrap();
        let (name, cure) = ("the cpuset of the container".to_owned(), "widen it".to_owned());
        let by_cpuset = limited("4 online", Some(Cpuset { name, cure }), &list("0-1"), &list("0-1")).unwrap();
        assert_eq!(by_cpuset.found, "4 online, by the cpuset of the container");
        assert_eq!(by_cpuset.cure.as_deref(), Some("widen it"));
        let by_mask = limited("4 online", None, &list("0-3"), &list("1")).unwrap();
        assert!(by_mask.found.ends_with("the affinity mask holds 1"), "{by_mask:?}");
        assert!(limited("4 online", None, &list("0-3"), &list("0-3")).is_none());
    }

    #[test]
    fn an_old_kernel_fails_and_a_new_one_does_not() {
        let with = |kernel: &str| Environment { kernel: Some(kernel.into()), ..Environment::observe() };
        assert_eq!(kernel(&with("5.10.0-28-amd64 #1")).verdict, Verdict::Fail);
        assert_eq!(kernel(&with("6.1.0-18-amd64 #1")).verdict, Verdict::Ok);
    }

    #[test]
    fn little_memory_fails() {
        let with = |bytes| Environment { memory_available_bytes: bytes, ..Environment::observe() };
        assert_eq!(memory(&with(Some(1 << 20))).verdict, Verdict::Fail);
        assert_eq!(memory(&with(Some(8 << 30))).verdict, Verdict::Ok);
        assert_eq!(memory(&with(None)).verdict, Verdict::Warn);
    }

    #[test]
    fn a_bound_on_real_time_says_what_it_costs() {
        let with = |us| Environment { real_time_us_per_second: us, ..Environment::observe() };
        assert!(real_time(&with(Some(950_000))).cure.unwrap().contains("stalls 50 ms"));
        assert_eq!(real_time(&with(Some(-1))).cure, None);
    }
}
