//! Reading loose JSON: fields are taken by name, and the others are kept.

use serde_json::{Map, Value};

use crate::error::{Error, Result};

/// The fields of an object that is being read.
#[derive(Debug)]
pub struct Fields {
    /// The place of the object in the file, for messages.
    place: String,
    map: Map<String, Value>,
}

impl Fields {
    /// Begins to read an object.
    pub fn new(place: impl Into<String>, value: Value) -> Result<Self> {
        let place = place.into();
        match value {
            Value::Object(map) => Ok(Fields { place, map }),
            _ => Err(Error::fatal(format!("{} is not an object", named(&place)))),
        }
    }

    /// Returns the fields that were not taken.
    pub fn rest(self) -> Map<String, Value> {
        self.map
    }

    /// Takes a field as it is; null counts as absent.
    pub fn value(&mut self, key: &str) -> Option<Value> {
        self.map.remove(key).filter(|value| !value.is_null())
    }

    /// Returns the names of the fields that were not taken.
    pub fn names(&self) -> Vec<String> {
        self.map.keys().cloned().collect()
    }

    /// Returns whether a field is there.
    pub fn has(&self, key: &str) -> bool {
        self.map.contains_key(key)
    }

    /// Takes a text.
    pub fn text(&mut self, key: &str) -> Result<Option<String>> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong(key, "a text")),
        }
    }

    /// Takes a list of texts; one text alone is a list of one. Numbers count as texts.
    pub fn texts(&mut self, key: &str) -> Result<Vec<String>> {
        let values = match self.value(key) {
            None => return Ok(Vec::new()),
            Some(Value::Array(values)) => values,
            Some(one) => vec![one],
        };
        let text = |value: Value| match value {
            Value::String(text) => Some(text),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        let texts: Option<Vec<String>> = values.into_iter().map(text).collect();
        texts.ok_or_else(|| self.wrong(key, "a list of texts"))
    }

    /// Takes a whole number that is not negative.
    pub fn count(&mut self, key: &str) -> Result<Option<u64>> {
        match self.value(key) {
            None => Ok(None),
            Some(value) => match value.as_u64() {
                Some(number) => Ok(Some(number)),
                None => Err(self.wrong(key, "a whole number")),
            },
        }
    }

    /// Takes a number.
    pub fn number(&mut self, key: &str) -> Result<Option<f64>> {
        match self.value(key) {
            None => Ok(None),
            Some(value) => match value.as_f64() {
                Some(number) => Ok(Some(number)),
                None => Err(self.wrong(key, "a number")),
            },
        }
    }

    /// Takes an object.
    pub fn object(&mut self, key: &str) -> Result<Option<Fields>> {
        match self.value(key) {
            None => Ok(None),
            Some(value) => Fields::new(self.under(key), value).map(Some),
        }
    }

    /// Takes a list.
    pub fn list(&mut self, key: &str) -> Result<Option<Vec<Value>>> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Array(values)) => Ok(Some(values)),
            Some(_) => Err(self.wrong(key, "a list")),
        }
    }

    /// Returns the place of a field, for messages.
    pub fn under(&self, key: &str) -> String {
        match self.place.as_str() {
            "" => key.to_owned(),
            place => format!("{place}.{key}"),
        }
    }

    fn wrong(&self, key: &str, wanted: &str) -> Error {
        Error::fatal(format!("'{}' is not {wanted}", self.under(key)))
    }
}

fn named(place: &str) -> String {
    match place {
        "" => "the plan".to_owned(),
        place => format!("'{place}'"),
    }
}
