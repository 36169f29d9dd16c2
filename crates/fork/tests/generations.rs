//! Parents, children and grandchildren.

use strait_fork::Process;
use strait_testkit::{Forked, skip};

#[test]
fn each_generation_is_another_process() {
    let parent = Process::this();
    let child = Forked::start(|| {
        let child = Process::this();
        let grandchild = Forked::start(|| !parent.is_this() && !child.is_this() && Process::this().is_this());
        !parent.is_this() && child.is_this() && grandchild.ended_well() && child.is_this()
    });
    assert!(child.ended_well() && parent.is_this());
    assert!(Process::watched().unwrap().is_this());
}

#[test]
fn threads_are_of_one_process_and_a_child_that_any_of_them_forks_is_another() {
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let process = Process::this();
                scope.spawn(move || assert!(process.is_this()));
                assert!(Forked::start(|| !process.is_this() && Process::this().is_this()).ended_well());
                assert!(process.is_this());
            });
        }
    });
}

#[test]
fn a_child_with_its_parents_process_id_is_another_process() {
    if !Forked::can_be_first() {
        return skip("processes with equal ids", "PID namespaces: root's rights, or user namespaces");
    }
    let parent = || {
        let (id, parent) = (std::process::id(), Process::this());
        let child = Forked::start_as_first(|| std::process::id() == id && !parent.is_this());
        child.ended_well() && parent.is_this()
    };
    assert!(Forked::start(|| Forked::start_as_first(parent).ended_well()).ended_well());
}
