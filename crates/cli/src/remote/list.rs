//! A list of a server, read to its end or as far as it is wanted, however many pages it has.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::call_error::CallError;
use super::client::Remote;
use crate::failure::Failure;
use crate::terminal::printable_json;

/// How many items a page has at most.
const MAX_PAGE: usize = 1_000;

/// Items of a list, as they came.
pub(crate) struct FullList {
    name: &'static str,
    items: Vec<Box<RawValue>>,
    /// The fields beside the list, as on the last page.
    others: BTreeMap<String, Box<RawValue>>,
}

impl FullList {
    /// Reads the list of that name, whose first page is at `path`, which may have a query.
    pub(crate) fn read(remote: &Remote, path: &str, name: &'static str) -> Result<Self, CallError> {
        Self::read_up_to(remote, path, name, usize::MAX)
    }

    /// Reads up to `max` items of a list.
    pub(crate) fn read_up_to(
        remote: &Remote,
        path: &str,
        name: &'static str,
        max: usize,
    ) -> Result<Self, CallError> {
        let (separator, page) = (if path.contains('?') { '&' } else { '?' }, max.min(MAX_PAGE));
        Self::read_from(remote, format!("{path}{separator}limit={page}"), name, max)
    }

    /// Reads a list that has no pages.
    pub(crate) fn read_whole(
        remote: &Remote,
        path: &str,
        name: &'static str,
    ) -> Result<Self, CallError> {
        Self::read_from(remote, path.to_owned(), name, usize::MAX)
    }

    fn read_from(
        remote: &Remote,
        path: String,
        name: &'static str,
        max: usize,
    ) -> Result<Self, CallError> {
        let mut list = Self { name, items: Vec::new(), others: BTreeMap::new() };
        let mut path = Some(path);
        while let Some(page) = path.take_if(|_| list.items.len() < max) {
            let mut response = remote.get::<BTreeMap<String, Box<RawValue>>>(&page)?;
            let Some(items) = response.value.remove(name) else {
                let message = format!("the server's answer has no {name}");
                return Err(Failure::usage(message).into());
            };
            list.items.extend(list.parse::<Vec<Box<RawValue>>>(&items)?);
            list.others = response.value;
            path = response.next;
        }
        list.items.truncate(max);
        Ok(list)
    }

    /// The list as one response.
    pub(crate) fn text(&self) -> String {
        format!("{{{}}}", self.fields_text())
    }

    /// The fields of the list as one response.
    pub(crate) fn fields_text(&self) -> String {
        let items: Vec<&str> = self.items.iter().map(|item| item.get()).collect();
        let others = self.others.iter().map(|(name, value)| format!("\"{name}\":{value},"));
        let others: String = others.collect();
        printable_json(&format!("{others}\"{}\":[{}]", self.name, items.join(",")))
    }

    /// The first item, as it came and as far as it is shown.
    pub(crate) fn first<T: DeserializeOwned>(&self) -> Result<Option<(&str, T)>, Failure> {
        let first = self.items.first();
        first.map(|item| Ok((item.get(), self.parse(item)?))).transpose()
    }

    /// A field beside the list; `None` if the server sent none.
    pub(crate) fn field<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Failure> {
        self.others.get(name).map(|text| self.parse(text)).transpose()
    }

    /// The items, as far as they are shown.
    pub(crate) fn rows<T: DeserializeOwned>(&self) -> Result<Vec<T>, Failure> {
        self.items.iter().map(|item| self.parse(item)).collect()
    }

    fn parse<T: DeserializeOwned>(&self, text: &RawValue) -> Result<T, Failure> {
        serde_json::from_str(text.get())
            .map_err(|error| Failure::usage(format!("the {} cannot be read: {error}", self.name)))
    }
}
