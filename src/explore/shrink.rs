//! From the many delays of a failing schedule to the few that matter.

use super::schedule::Delays;
use crate::error::Result;

/// A smallest subset of `delays` that still `fails`: no single delay can be left out.
///
/// Removes halves, quarters and so on, then single delays, as long as that helps; asks at most
/// `limit` times.
///
/// # Errors
/// What `fails` raises.
pub fn shrink(
    delays: &Delays,
    mut limit: usize,
    mut fails: impl FnMut(&Delays) -> Result<bool>,
) -> Result<Delays> {
    if fails(&Delays::new())? {
        return Ok(Delays::new());
    }
    let mut kept: Vec<_> = delays.iter().map(|(s, t)| (*s, *t)).collect();
    let mut chunk = kept.len().div_ceil(2);
    while chunk > 0 && limit > 0 {
        let mut at = 0;
        let mut smaller = false;
        while at < kept.len() && limit > 0 {
            let end = (at + chunk).min(kept.len());
            let rest: Delays = kept[..at].iter().chain(&kept[end..]).copied().collect();
            limit -= 1;
            if fails(&rest)? {
                kept.drain(at..end);
                smaller = true;
            } else {
                at = end;
            }
        }
        if !smaller || chunk > 1 {
            chunk = if chunk == 1 { 0 } else { chunk.div_ceil(2) };
        }
    }
    Ok(kept.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::super::schedule::{PointName, Site};
    use super::*;

    #[test]
    fn keeps_what_matters_together() {
        let site = |index| Site { stream: 0, index, point: PointName::Fetch };
        let all: Delays = (0..100).map(|i| (site(i), 5)).collect();
        let needed = [site(3), site(77)];
        let small = shrink(&all, 10_000, |d| Ok(needed.iter().all(|s| d.contains_key(s)))).unwrap();
        assert_eq!(small.into_keys().collect::<Vec<_>>(), needed);
    }
}
