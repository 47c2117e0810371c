//! States that do not fit into a slot: logs, and counters of limits so large or so odd that their
//! debt needs more than 64 bits. They live beside their page, in places that are reused.

use tollgate_core::{Limit, State};

#[derive(Debug, Default)]
pub(crate) struct Spill {
    /// The limit each state is counted in, and the state, unless it is out to be changed.
    places: Vec<(Limit, Option<State>)>,
    free: Vec<usize>,
    /// The heap that the logs among the states take.
    log_bytes: usize,
}

impl Spill {
    pub(crate) fn heap_bytes(&self) -> usize {
        self.places.capacity() * size_of::<(Limit, Option<State>)>()
            + self.free.capacity() * size_of::<usize>()
            + self.log_bytes
    }

    pub(crate) fn get(&self, place: usize) -> Option<(&Limit, &State)> {
        let (limit, state) = self.places.get(place)?;
        Some((limit, state.as_ref()?))
    }

    /// Takes the state out, to be changed and put back: a log is not copied.
    pub(crate) fn take(&mut self, place: usize) -> Option<State> {
        let state = self.places.get_mut(place)?.1.take()?;
        self.log_bytes -= log_bytes(&state);
        Some(state)
    }

    /// Puts a state back that [`Spill::take`] gave.
    pub(crate) fn put_back(&mut self, place: usize, state: State) {
        if let Some((_, vacant)) = self.places.get_mut(place) {
            self.log_bytes += log_bytes(&state);
            *vacant = Some(state);
        }
    }

    /// Finds a place for a state that had none.
    pub(crate) fn add(&mut self, limit: &Limit, state: State) -> usize {
        let place = self.free.pop().unwrap_or(self.places.len());
        if place == self.places.len() {
            self.places.push((*limit, None));
        }
        self.places[place].0 = *limit;
        self.put_back(place, state);
        place
    }

    pub(crate) fn release(&mut self, place: usize) {
        drop(self.take(place));
        self.free.push(place);
        if self.free.len() == self.places.len() {
            *self = Self::default();
        }
    }
}

fn log_bytes(state: &State) -> usize {
    match state {
        State::Log(log) => size_of_val(log.as_ref()) + log.heap_bytes(),
        State::Bucket(_) | State::Window(_) => 0,
    }
}
