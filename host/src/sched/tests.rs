use std::thread;

use super::*;
use crate::testing::{self, skip};

/// Scheduling is a thread's own: a fresh thread leaves the test runner's alone.
fn on_own_thread(work: impl FnOnce() + Send + 'static) {
    thread::spawn(work).join().unwrap();
}

#[test]
fn fair_policies_are_read_back_as_set() {
    on_own_thread(|| {
        for nice in [0, 7, 19] {
            let slice_ns = Some(3_000_000);
            let set_and_got = |policy| set(None, policy).map(|()| assert_eq!(get(None).unwrap(), policy));
            let normal = set_and_got(Policy::Normal { nice, slice_ns });
            let batch = set_and_got(Policy::Batch { nice, slice_ns });
            if let Err(error @ SchedError::SliceIgnored { .. }) = normal.and(batch) {
                return skip(&error.to_string());
            }
        }
    });
}

#[test]
fn the_default_slice_returns_when_none_is_asked_for() {
    on_own_thread(|| {
        let slice_of = |policy| match policy {
            Policy::Normal { slice_ns, .. } | Policy::Batch { slice_ns, .. } => slice_ns,
            _ => None,
        };
        let default = slice_of(get(None).unwrap());
        let short = Policy::Batch { nice: 0, slice_ns: Some(SLICE_NS_MIN) };
        if let Err(error @ SchedError::SliceIgnored { .. }) = set(None, short) {
            return skip(&error.to_string());
        }
        assert_eq!(slice_of(get(None).unwrap()), Some(SLICE_NS_MIN));
        set(None, Policy::Batch { nice: 0, slice_ns: None }).unwrap();
        assert_eq!(slice_of(get(None).unwrap()), default);
    });
}

#[test]
fn a_thread_that_is_preferred_starts_others_that_are_not() {
    on_own_thread(|| {
        let nice_here = || match get(None).unwrap() {
            Policy::Normal { nice, .. } => nice,
            other => panic!("{other:?}"),
        };
        match prefer(-5, SLICE_NS_MIN) {
            Ok(()) => assert_eq!(nice_here(), -5),
            Err(error @ SchedError::NotPermitted { .. }) => return skip(&error.to_string()),
            Err(error) => panic!("{error}"),
        }
        assert_eq!(thread::spawn(nice_here).join().unwrap(), 0);
    });
}

#[test]
fn real_time_policies_are_read_back_as_set() {
    on_own_thread(|| {
        for policy in [Policy::RoundRobin { priority: 1 }, Policy::Fifo { priority: 2 }] {
            match set(None, policy) {
                Ok(()) => assert_eq!(get(None).unwrap(), policy),
                Err(error @ SchedError::NotPermitted { .. }) => return skip(&error.to_string()),
                Err(error) => panic!("{error}"),
            }
        }
    });
}

#[test]
fn a_group_without_real_time_is_named_in_the_refusal() {
    on_own_thread(|| {
        let controller = CpuController::find();
        let CpuController::V1(mount) = &controller else {
            return skip("the cpu controller is not version 1, which alone rations real time");
        };
        let group = mount.join(format!("headgate-test-{}", std::process::id()));
        if let Err(error) = fs::create_dir(&group) {
            return skip(&format!("cannot make {}: {error}", group.display()));
        }
        // The thread leaves the group again before the directory is removed.
        let thread_id = rustix::thread::gettid().as_raw_pid().to_string();
        fs::write(group.join("tasks"), &thread_id).unwrap();
        let result = set(None, Policy::Fifo { priority: 1 });
        fs::write(mount.join("tasks"), &thread_id).unwrap();
        fs::remove_dir(&group).unwrap();
        if !group.with_file_name("cpu.rt_runtime_us").exists() {
            return skip("this kernel does not ration real time by group");
        }
        let text = result.unwrap_err().to_string();
        assert!(text.contains("cpu.rt_runtime_us"), "{text}");
    });
}

#[test]
fn without_the_right_the_refusal_names_it() {
    on_own_thread(|| {
        testing::drop_capabilities();
        let policy = Policy::Normal { nice: -5, slice_ns: None };
        let Err(SchedError::NotPermitted { reason, .. }) = set(None, policy) else {
            return skip("RLIMIT_NICE allows negative nice values to everybody here");
        };
        assert_eq!(reason, MissingRight::NoCapability);
    });
}

#[test]
fn numbers_out_of_range_never_reach_the_kernel() {
    let slice = |ns| Policy::Normal { nice: 0, slice_ns: Some(ns) };
    let refused = [
        Policy::Normal { nice: 20, slice_ns: None },
        Policy::Batch { nice: -21, slice_ns: None },
        Policy::RoundRobin { priority: 0 },
        Policy::Fifo { priority: 100 },
        slice(SLICE_NS_MIN - 1),
        slice(SLICE_NS_MAX + 1),
    ];
    for policy in refused {
        let error = set(None, policy).unwrap_err();
        assert!(matches!(error, SchedError::OutOfRange { .. }), "{error}");
    }
}

#[test]
fn a_task_that_is_gone_is_named() {
    let gone = testing::pid_of_nobody();
    let error = get(Some(gone)).unwrap_err();
    assert!(matches!(error, SchedError::NoSuchTask { .. }), "{error}");
}
