//! The call request queue and its workers (section IV.A).

use super::in_any_order;
use crate::client::workers::{CallingWorkers, Work};
use crate::sync::{Condvar, Mutex, thread};
use std::sync::Arc;
use std::time::Duration;

/// A record of the work's outcomes, and of the threads that wait for it.
#[derive(Default)]
struct Book {
    entries: Mutex<Entries>,
    changed: Condvar,
}

#[derive(Default)]
struct Entries {
    begun: usize,
    done: Vec<usize>,
    refused: Vec<usize>,
}

impl Book {
    /// Waits until `count` tasks are over; waits for ever if one is lost.
    fn wait_for(&self, count: usize) {
        let mut entries = self.entries.lock().unwrap();
        while entries.done.len() + entries.refused.len() < count {
            entries = self.changed.wait(entries).unwrap();
        }
    }

    /// Checks that the book has each number below `count` exactly once, as done or refused.
    fn is_complete(&self, count: usize) {
        let entries = self.entries.lock().unwrap();
        let mut all = [&entries.done[..], &entries.refused].concat();
        all.sort_unstable();
        assert_eq!(all, (0..count).collect::<Vec<_>>(), "each once");
    }
}

struct Task {
    number: usize,
    /// The task ends only after this many tasks have begun.
    company: usize,
    book: Arc<Book>,
}

impl Work for Task {
    fn run(self) {
        let mut entries = self.book.entries.lock().unwrap();
        entries.begun += 1;
        self.book.changed.notify_all();
        while entries.begun < self.company {
            entries = self.book.changed.wait(entries).unwrap();
        }
        entries.done.push(self.number);
        self.book.changed.notify_all();
    }

    fn refuse(self) {
        self.book.entries.lock().unwrap().refused.push(self.number);
        self.book.changed.notify_all();
    }
}

fn tasks(numbers: std::ops::Range<usize>, book: &Arc<Book>) -> Vec<Task> {
    numbers.map(|number| Task { number, company: 0, book: Arc::clone(book) }).collect()
}

/// Closes, and waits until the threads have ended.
fn close(workers: &CallingWorkers<Task>) {
    workers.close();
    while workers.count() > 0 {
        thread::yield_now();
    }
}

const DORMANT: Duration = Duration::from_secs(1);

#[test]
fn what_is_submitted_is_done_once_while_workers_come_and_go_dormant() {
    in_any_order(|| {
        let book = Arc::new(Book::default());
        let workers = Arc::new(CallingWorkers::new(2, DORMANT));
        let submitters: Vec<_> = [0..2, 2..3]
            .map(|numbers| {
                let (workers, book) = (Arc::clone(&workers), Arc::clone(&book));
                thread::spawn(move || workers.submit(tasks(numbers, &book)))
            })
            .into();
        submitters.into_iter().for_each(|submitter| submitter.join().unwrap());
        assert!(workers.count() <= 2, "{} workers", workers.count());
        book.wait_for(3);
        // Earlier workers may be dormant, ending, or gone.
        workers.submit(tasks(3..5, &book));
        book.wait_for(5);
        close(&workers);
        book.is_complete(5);
        assert!(book.entries.lock().unwrap().refused.is_empty());
    });
}

#[test]
fn nothing_waits_behind_something_else_while_there_may_be_more_workers() {
    in_any_order(|| {
        let book = Arc::new(Book::default());
        let workers = Arc::new(CallingWorkers::new(2, DORMANT));
        workers.submit(tasks(0..1, &book));
        book.wait_for(1);
        // One worker may be dormant, about to be, or gone.
        for number in 1..3 {
            let both = Task { number, company: 3, book: Arc::clone(&book) };
            workers.submit(vec![both]);
        }
        book.wait_for(3);
        close(&workers);
        book.is_complete(3);
    });
}

#[test]
fn a_queue_that_is_closed_is_worked_off() {
    in_any_order(|| {
        let book = Arc::new(Book::default());
        let workers = Arc::new(CallingWorkers::new(1, DORMANT));
        workers.submit(tasks(0..2, &book));
        let closer = {
            let workers = Arc::clone(&workers);
            thread::spawn(move || workers.close())
        };
        // This happens before or after the closing.
        workers.submit(tasks(2..3, &book));
        closer.join().unwrap();
        book.wait_for(3);
        close(&workers);
        book.is_complete(3);
    });
}

#[test]
fn what_is_withdrawn_isnt_done_and_what_is_done_isnt_withdrawn() {
    in_any_order(|| {
        let book = Arc::new(Book::default());
        let workers = Arc::new(CallingWorkers::new(1, DORMANT));
        workers.submit(tasks(0..3, &book));
        let withdrawn = workers.withdraw(|task| task.number != 1);
        assert!(withdrawn.iter().all(|task| task.number != 1));
        withdrawn.into_iter().for_each(Task::refuse);
        workers.submit(tasks(3..4, &book));
        book.wait_for(4);
        close(&workers);
        book.is_complete(4);
    });
}
