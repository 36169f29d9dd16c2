//! A cache of values by user, which keeps the most recently used ones.

use std::collections::HashMap;

/// At most `most` values, each of one user.
#[derive(Debug)]
pub(super) struct ByUser<T> {
    most: usize,
    values: HashMap<String, Used<T>>,
    /// Counts uses.
    clock: u64,
}

#[derive(Debug)]
struct Used<T> {
    value: T,
    /// The count of the latest use. The value with the smallest count has been unused longest.
    last: u64,
}

impl<T: Clone> ByUser<T> {
    /// A cache without values.
    pub fn new(most: usize) -> Self {
        Self { most, values: HashMap::new(), clock: 0 }
    }

    /// The user's value. If there is none, `make` makes it, and a full cache drops the least recently used.
    ///
    /// # Errors
    /// The errors of `make`.
    pub fn get_or_make<E>(&mut self, user: &str, make: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.clock += 1;
        let last = self.clock;
        if let Some(used) = self.values.get_mut(user) {
            used.last = last;
            return Ok(used.value.clone());
        }
        let value = make()?;
        if self.values.len() >= self.most {
            let oldest = self.values.iter().min_by_key(|(_, used)| used.last).map(|(user, _)| user.clone());
            oldest.map(|user| self.values.remove(&user));
        }
        self.values.insert(user.to_owned(), Used { value: value.clone(), last });
        Ok(value)
    }

    /// Removes all values.
    pub fn clear(&mut self) {
        self.values.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    #[test]
    fn the_value_that_was_unused_longest_goes() {
        let mut values = ByUser::new(2);
        let mut get = |user: &str, value| values.get_or_make(user, || Ok::<_, Infallible>(value)).unwrap();
        assert_eq!([get("alice", 1), get("bob", 2), get("alice", 3)], [1, 2, 1]);
        assert_eq!(get("carol", 4), 4);
        assert_eq!([get("alice", 5), get("bob", 6)], [1, 6]);
    }
}
