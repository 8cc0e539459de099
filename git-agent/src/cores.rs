//! Work on many items at once, on all cores.

use std::sync::OnceLock;

/// Returns how many cores this process may use. The result is cached, because asking the kernel takes a dozen calls.
pub fn count() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Runs `work` on each item and returns the results in order. `own` makes a value for each core where one cannot be
/// shared.
pub fn each<T: Sync, O: Send, R: Send>(
    things: &[T],
    own: impl Fn() -> O,
    work: impl Fn(&O, &T) -> R + Sync,
) -> Vec<R> {
    let all =
        |own: O, part: &[T]| -> Vec<R> { part.iter().map(|thing| work(&own, thing)).collect() };
    parts(things, 1, own, all).into_iter().flatten().collect()
}

/// Runs `work` on slices of the items, one per core, and returns the results in order. One core alone
/// handles up to `enough` items.
pub fn parts<'t, T: Sync, O: Send, R: Send>(
    things: &'t [T],
    enough: usize,
    own: impl Fn() -> O,
    work: impl Fn(O, &'t [T]) -> R + Sync,
) -> Vec<R> {
    let threads = count().min(things.len().div_ceil(enough.max(1))).max(1);
    let share = things.len().div_ceil(threads).max(1);
    if things.len() <= share {
        let only = (!things.is_empty()).then(|| work(own(), things));
        return only.into_iter().collect();
    }
    let work = &work;
    std::thread::scope(|scope| {
        let (first, rest) = things.split_at(share);
        let running: Vec<_> = rest
            .chunks(share)
            .map(|part| {
                let own = own();
                scope.spawn(move || work(own, part))
            })
            .collect();
        // This thread works on the first slice.
        let first = work(own(), first);
        let others = running.into_iter().map(|thread| {
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        std::iter::once(first).chain(others).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_kept() {
        for count in [0, 1, 2, 3, 7, 100] {
            let things: Vec<usize> = (0..count).collect();
            let doubled: Vec<usize> = things.iter().map(|thing| thing * 2).collect();
            assert_eq!(each(&things, || 2, |own, thing| own * thing), doubled);
            let whole: Vec<usize> = parts(&things, 3, || (), |(), part| part.to_vec()).concat();
            assert_eq!(whole, things);
        }
    }

    #[test]
    fn few_things_are_one_part() {
        let main = std::thread::current().id();
        let here = |(): (), _: &[u8]| std::thread::current().id();
        assert_eq!(parts(&[1, 2, 3], 3, || (), here), [main]);
    }
}
