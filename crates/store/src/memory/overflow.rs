//! States that do not fit into a slot: logs, and counters of limits so large that their debt needs more than 64 bits.
//! They are outside their pages, in places that are reused.

use tollgate_core::{Limit, State};

#[derive(Debug)]
struct Overflowed {
    /// The limit the state is counted in.
    limit: Limit,
    /// Absent while it is being changed.
    state: Option<State>,
    /// The bytes accounted for the state, also while it is being changed.
    bytes: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Overflow {
    /// Boxed, so that a free place takes eight bytes.
    places: Vec<Option<Box<Overflowed>>>,
    free: Vec<usize>,
    /// The heap that the states take.
    bytes: usize,
}

impl Overflow {
    pub(crate) fn heap_bytes(&self) -> usize {
        self.bytes
            + self.places.capacity() * size_of::<Option<Box<Overflowed>>>()
            + self.free.capacity() * size_of::<usize>()
    }

    pub(crate) fn get(&self, place: usize) -> Option<(&Limit, &State)> {
        let overflowed = self.places.get(place)?.as_deref()?;
        Some((&overflowed.limit, overflowed.state.as_ref()?))
    }

    /// Takes the state out, to be changed and put back: a log is not copied.
    pub(crate) fn take(&mut self, place: usize) -> Option<State> {
        self.places.get_mut(place)?.as_deref_mut()?.state.take()
    }

    /// Returns an unchanged state that [`Overflow::take`] took.
    pub(crate) fn put_back(&mut self, place: usize, state: State) {
        if let Some(Some(overflowed)) = self.places.get_mut(place) {
            overflowed.state = Some(state);
        }
    }

    /// Replaces the state at `place` with one counted in `limit`.
    pub(crate) fn replace(&mut self, place: usize, limit: &Limit, state: State) {
        if let Some(Some(overflowed)) = self.places.get_mut(place) {
            let bytes = bytes_of(&state);
            self.bytes = self.bytes - overflowed.bytes + bytes;
            **overflowed = Overflowed { limit: *limit, state: Some(state), bytes };
        }
    }

    /// Stores a new state and returns its place.
    pub(crate) fn add(&mut self, limit: &Limit, state: State) -> usize {
        let bytes = bytes_of(&state);
        self.bytes += bytes;
        let overflowed = Some(Box::new(Overflowed { limit: *limit, state: Some(state), bytes }));
        if let Some(place) = self.free.pop() {
            self.places[place] = overflowed;
            return place;
        }
        self.places.push(overflowed);
        self.places.len() - 1
    }

    pub(crate) fn release(&mut self, place: usize) {
        if let Some(overflowed) = self.places.get_mut(place).and_then(Option::take) {
            self.bytes -= overflowed.bytes;
            self.free.push(place);
        }
        if self.free.len() == self.places.len() {
            *self = Self::default();
        }
    }
}

/// The overhead of an allocator for each block.
const PER_BLOCK: usize = 16;

fn bytes_of(state: &State) -> usize {
    let log = match state {
        State::Log(log) => size_of_val(log.as_ref()) + log.heap_bytes() + 2 * PER_BLOCK,
        State::Bucket(_) | State::Window(_) => 0,
    };
    size_of::<Overflowed>() + PER_BLOCK + log
}
