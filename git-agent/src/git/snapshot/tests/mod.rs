//! Snapshots, restores and moved changes on real repositories.

#[cfg(test)]
mod cases;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod move_changes;
#[cfg(test)]
mod random;
#[cfg(test)]
mod settings;
#[cfg(test)]
pub(crate) mod world;
