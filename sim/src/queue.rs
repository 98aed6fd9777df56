//! The event queue: what happens next.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use datapath::types::Time;

/// Which of two events of the same time comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// What is in motion: frames, timers. Comes first, so that all consequences of a step are done before the next step.
    Motion,
    /// Steps of the scenario.
    Step,
}

/// Events ordered by (time, class, sequence number): those of the same time and class come out in the order in which they
/// went in.
#[derive(Clone, Debug)]
pub struct EventQueue<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    next_sequence: u64,
}

#[derive(Clone, Debug)]
struct Entry<T> {
    time: Time,
    class: Class,
    sequence: u64,
    event: T,
}

impl<T> Entry<T> {
    fn key(&self) -> (Time, Class, u64) {
        (self.time, self.class, self.sequence)
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl<T> Default for EventQueue<T> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), next_sequence: 0 }
    }
}

impl<T> EventQueue<T> {
    /// Adds an event.
    pub fn push(&mut self, time: Time, class: Class, event: T) {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.heap.push(Reverse(Entry { time, class, sequence, event }));
    }

    /// Takes the next event.
    pub fn pop(&mut self) -> Option<(Time, T)> {
        self.heap.pop().map(|Reverse(entry)| (entry.time, entry.event))
    }

    /// When the next event is.
    pub fn next_time(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse(entry)| entry.time)
    }

    /// How many events wait.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// The waiting events, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (Time, &T)> {
        self.heap.iter().map(|Reverse(entry)| (entry.time, &entry.event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Comes out as a stable sort by (time, class) of what went in, however pushes and pops are mixed.
        #[test]
        fn is_a_stable_sort(events in prop::collection::vec((0u64..8, any::<bool>(), any::<bool>()), 0..60)) {
            let mut queue = EventQueue::default();
            let mut model: Vec<(u64, Class, usize)> = Vec::new();
            for (id, (time, step, pop)) in events.into_iter().enumerate() {
                let class = if step { Class::Step } else { Class::Motion };
                queue.push(Time(time), class, id);
                model.push((time, class, id));
                if pop {
                    model.sort_by_key(|(time, class, _)| (*time, *class));
                    let (time, _, id) = model.remove(0);
                    prop_assert_eq!(queue.pop(), Some((Time(time), id)));
                }
            }
            model.sort_by_key(|(time, class, _)| (*time, *class));
            for (time, _, id) in model {
                prop_assert_eq!(queue.next_time(), Some(Time(time)));
                prop_assert_eq!(queue.pop(), Some((Time(time), id)));
            }
            prop_assert!(queue.is_empty());
        }
    }
}
