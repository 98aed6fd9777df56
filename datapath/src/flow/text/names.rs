//! Names of datapath ports in text.

use std::borrow::Cow;
use std::cell::RefCell;

use crate::types::PortNo;

/// Names of datapath ports. Where a port has none, text has its number.
///
/// Names stand in text as they are, without quotes, as in OVS: a name that looks like a number, or has a comma or a
/// parenthesis in it, cannot be read back.
pub trait PortNames {
    /// The name of a port.
    fn name(&self, port: PortNo) -> Option<Cow<'_, str>>;

    /// The port of a name.
    fn port(&self, name: &str) -> Option<PortNo>;
}

/// Takes every word for the name of a port: to reformat text when its switch is not at hand.
///
/// Each new name gets a number of its own, from the top of the numbers that no switch uses.
#[derive(Clone, Debug, Default)]
pub struct AnyNames {
    seen: RefCell<Vec<String>>,
}

/// The number of the first name.
const FIRST: u32 = 0xfff0_0000;

impl PortNames for AnyNames {
    fn name(&self, port: PortNo) -> Option<Cow<'_, str>> {
        let index = port.0.checked_sub(FIRST)? as usize;
        self.seen.borrow().get(index).cloned().map(Cow::Owned)
    }

    fn port(&self, name: &str) -> Option<PortNo> {
        if name.is_empty() || name.contains(|c: char| c == '(' || c == ')' || c == ',' || c.is_whitespace()) {
            return None;
        }
        let mut seen = self.seen.borrow_mut();
        let index = seen.iter().position(|known| known == name).unwrap_or_else(|| {
            seen.push(name.to_owned());
            seen.len() - 1
        });
        u32::try_from(index).ok().and_then(|index| FIRST.checked_add(index)).map(PortNo)
    }
}
