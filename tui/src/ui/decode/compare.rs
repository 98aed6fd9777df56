//! What one event changed: two frames' layers and fields compared.

use super::Layer;

/// How a field or a layer compares with what was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// As before.
    Same,
    /// Another value than before.
    Changed,
    /// Not there before.
    Added,
}

/// For each layer of `after`, and each of its fields, how it compares with `before`; and the names of the layers that are
/// gone. Layers are paired from the innermost outwards, because headers come and go at the front.
pub fn compare(before: &[Layer], after: &[Layer]) -> (Vec<(Change, Vec<Change>)>, Vec<&'static str>) {
    let pairs = pair(before, after);
    let changes = after.iter().zip(&pairs).map(|(layer, partner)| {
        let Some(old) = partner.map(|index| &before[index]) else {
            return (Change::Added, vec![Change::Added; layer.fields.len()]);
        };
        let fields: Vec<Change> = layer
            .fields
            .iter()
            .map(|field| match old.fields.iter().find(|old| old.name == field.name) {
                None => Change::Added,
                Some(old) if old.value == field.value => Change::Same,
                Some(_) => Change::Changed,
            })
            .collect();
        let same =
            fields.iter().all(|change| *change == Change::Same) && old.fields.len() == layer.fields.len();
        (if same { Change::Same } else { Change::Changed }, fields)
    });
    let gone =
        (0..before.len()).filter(|index| !pairs.contains(&Some(*index))).map(|index| before[index].name);
    (changes.collect(), gone.collect())
}

/// For each layer of `after` the layer of `before` that it was: the longest common sequence of names, from the inside out.
fn pair(before: &[Layer], after: &[Layer]) -> Vec<Option<usize>> {
    // `common[i][j]`: how many of the first i and j layers can be paired. Few layers: a table is cheap.
    let mut common = vec![vec![0_usize; after.len() + 1]; before.len() + 1];
    for (i, old) in before.iter().enumerate() {
        for (j, new) in after.iter().enumerate() {
            common[i + 1][j + 1] =
                if old.name == new.name { common[i][j] + 1 } else { common[i][j + 1].max(common[i + 1][j]) };
        }
    }
    let mut pairs = vec![None; after.len()];
    let (mut i, mut j) = (before.len(), after.len());
    while i > 0 && j > 0 {
        if before[i - 1].name == after[j - 1].name {
            pairs[j - 1] = Some(i - 1);
            (i, j) = (i - 1, j - 1);
        } else if common[i - 1][j] >= common[i][j - 1] {
            i -= 1;
        } else {
            j -= 1;
        }
    }
    pairs
}
