//! Finds rules that replace each other in a circle: where all of them match, none would apply.

/// The places of one circle, if there is any. `replaces` holds for each place the places it
/// replaces.
pub(crate) fn find_circle(replaces: &[&[usize]]) -> Option<Vec<usize>> {
    let mut replaced_by = vec![0_usize; replaces.len()];
    replaces.iter().copied().flatten().for_each(|place| replaced_by[*place] += 1);
    // Takes places away that nothing replaces, over and over. A circle stays, and what it leads to.
    let mut free = (0..replaces.len()).filter(|place| replaced_by[*place] == 0).collect::<Vec<_>>();
    while let Some(place) = free.pop() {
        for replaced in replaces[place] {
            replaced_by[*replaced] -= 1;
            if replaced_by[*replaced] == 0 {
                free.push(*replaced);
            }
        }
    }
    let stays = |place: &usize| replaced_by[*place] > 0;
    let mut replacer = vec![0; replaces.len()];
    for place in (0..replaces.len()).filter(stays) {
        replaces[place].iter().for_each(|replaced| replacer[*replaced] = place);
    }
    // Everything that stays is replaced by something that stays, so going back ends in a circle.
    let start = (0..replaces.len()).find(stays)?;
    let on_circle = (0..replaces.len()).fold(start, |place, _| replacer[place]);
    let mut circle = vec![on_circle];
    let mut place = replacer[on_circle];
    while place != on_circle {
        circle.push(place);
        place = replacer[place];
    }
    Some(circle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_are_found() {
        for (replaces, expected) in [
            (&[&[][..]][..], None),
            (&[&[1], &[2], &[]], None),
            (&[&[1, 2], &[2], &[]], None),
            (&[&[1], &[0]], Some(vec![0, 1])),
            (&[&[], &[2], &[3], &[1, 0]], Some(vec![1, 2, 3])),
            // What leads into a circle, or out of it, is no part of it.
            (&[&[1], &[2], &[1, 3], &[4], &[]], Some(vec![1, 2])),
        ] {
            let found = find_circle(replaces).map(|mut circle| {
                circle.sort_unstable();
                circle
            });
            assert_eq!(found, expected, "{replaces:?}");
        }
    }
}
