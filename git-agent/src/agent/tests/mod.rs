//! Drivers against a script, and against recordings of real agents.

#[cfg(test)]
mod replay;
#[cfg(test)]
pub mod script;
