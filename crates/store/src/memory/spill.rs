//! States that do not fit into a slot: logs, and counters of limits so large or so odd that their
//! debt needs more than 64 bits. They live beside their pages, in places that are reused.

use tollgate_core::{Limit, State};

#[derive(Debug)]
struct Spilled {
    /// The limit the state is counted in.
    limit: Limit,
    /// Missing while it is out to be changed.
    state: Option<State>,
    /// What is on the books for it. A state that is out stays on the books.
    bytes: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Spill {
    /// Boxed, so that a place that is free takes a word.
    places: Vec<Option<Box<Spilled>>>,
    free: Vec<usize>,
    /// The heap that what is in the places takes.
    bytes: usize,
}

impl Spill {
    pub(crate) fn heap_bytes(&self) -> usize {
        self.bytes
            + self.places.capacity() * size_of::<Option<Box<Spilled>>>()
            + self.free.capacity() * size_of::<usize>()
    }

    pub(crate) fn get(&self, place: usize) -> Option<(&Limit, &State)> {
        let spilled = self.places.get(place)?.as_deref()?;
        Some((&spilled.limit, spilled.state.as_ref()?))
    }

    /// Takes the state out, to be changed and put back: a log is not copied.
    pub(crate) fn take(&mut self, place: usize) -> Option<State> {
        self.places.get_mut(place)?.as_deref_mut()?.state.take()
    }

    /// Puts a state back that [`Spill::take`] gave and nobody changed.
    pub(crate) fn put_back(&mut self, place: usize, state: State) {
        if let Some(Some(spilled)) = self.places.get_mut(place) {
            spilled.state = Some(state);
        }
    }

    /// Puts another state in its place, counted in `limit`.
    pub(crate) fn replace(&mut self, place: usize, limit: &Limit, state: State) {
        if let Some(Some(spilled)) = self.places.get_mut(place) {
            let bytes = bytes_of(&state);
            self.bytes = self.bytes - spilled.bytes + bytes;
            **spilled = Spilled { limit: *limit, state: Some(state), bytes };
        }
    }

    /// Finds a place for a state that had none.
    pub(crate) fn add(&mut self, limit: &Limit, state: State) -> usize {
        let bytes = bytes_of(&state);
        self.bytes += bytes;
        let spilled = Some(Box::new(Spilled { limit: *limit, state: Some(state), bytes }));
        if let Some(place) = self.free.pop() {
            self.places[place] = spilled;
            return place;
        }
        self.places.push(spilled);
        self.places.len() - 1
    }

    pub(crate) fn release(&mut self, place: usize) {
        if let Some(spilled) = self.places.get_mut(place).and_then(Option::take) {
            self.bytes -= spilled.bytes;
            self.free.push(place);
        }
        if self.free.len() == self.places.len() {
            *self = Self::default();
        }
    }
}

/// What an allocator takes for itself with each block it hands out.
const PER_BLOCK: usize = 16;

fn bytes_of(state: &State) -> usize {
    let log = match state {
        State::Log(log) => size_of_val(log.as_ref()) + log.heap_bytes() + 2 * PER_BLOCK,
        State::Bucket(_) | State::Window(_) => 0,
    };
    size_of::<Spilled>() + PER_BLOCK + log
}
