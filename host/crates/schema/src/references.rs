//! References between the schemas of one document: finds circular references, and bounds the number
//! of schemas that they apply to one value.

use crate::rules::{Id, InPlace, Rules};

/// The maximum number of subschemas that apply to one value at one place, counting through
/// references.
const MAX_FAN: u64 = 10_000;
/// The maximum length of a chain of subschemas for one value, counting through references.
const MAX_CHAIN: usize = 100;

/// Marks the schemas that contain references, and checks the targets.
///
/// # Errors
/// The fault of the schema; completes "its schema …".
pub(super) fn settle(rules: &mut [Rules]) -> Result<(), String> {
    mark_references(rules);
    Chains { rules, fan: vec![None; rules.len()], open: vec![false; rules.len()], length: 0 }.check()
}

/// Records for each schema whether it or a subschema contains references.
fn mark_references(rules: &mut [Rules]) {
    // A subschema comes after the schema that contains it, so one backward pass suffices.
    for at in (0..rules.len()).rev() {
        let (mut below, mut refers) = (Vec::new(), false);
        rules[at].each_below(&mut |id| below.push(id));
        for rule in &rules[at].in_place {
            refers |= matches!(rule, InPlace::Reference(_));
        }
        rules[at].has_references =
            refers || below.iter().any(|id| *id as usize > at && rules[*id as usize].has_references);
    }
}

impl Rules {
    /// Visits the schemas that apply to the same value.
    fn each_in_place(&self, visit: &mut impl FnMut(Id)) {
        for rule in &self.in_place {
            match rule {
                InPlace::Reference(id) | InPlace::Not(id) => visit(*id),
                InPlace::All(ids) | InPlace::Any(ids) | InPlace::One(ids) => {
                    ids.iter().for_each(|id| visit(*id))
                }
                InPlace::If { condition, then, otherwise } => {
                    visit(*condition);
                    then.iter().chain(otherwise).for_each(|id| visit(*id));
                }
            }
        }
        let object = self.object.iter().flat_map(|object| &object.dependent_schemas);
        object.for_each(|(_, id)| visit(*id));
    }

    /// Visits every direct subschema.
    fn each_below(&self, visit: &mut impl FnMut(Id)) {
        self.each_in_place(visit);
        if let Some(array) = &self.array {
            let contains = array.contains.as_ref().map(|contains| contains.schema);
            array.prefix.iter().copied().chain(array.items).chain(contains).for_each(&mut *visit);
        }
        if let Some(object) = &self.object {
            let members = object.properties.values().chain(object.patterns.iter().map(|(_, id)| id));
            members.chain(&object.additional).chain(&object.names).for_each(|id| visit(*id));
        }
        self.unevaluated_items.iter().chain(&self.unevaluated_properties).for_each(|id| visit(*id));
    }
}

/// Follows the schemas that apply to one value.
struct Chains<'a> {
    rules: &'a [Rules],
    /// For each schema, the number of schemas that apply to a value it is checked against.
    fan: Vec<Option<u64>>,
    open: Vec<bool>,
    length: usize,
}

impl Chains<'_> {
    fn check(mut self) -> Result<(), String> {
        (0..self.rules.len() as Id).try_for_each(|id| self.fan(id).map(drop))
    }

    /// The number of schemas that apply to the value itself, without those for its parts.
    fn fan(&mut self, id: Id) -> Result<u64, String> {
        let at = id as usize;
        if let Some(known) = self.fan[at] {
            return Ok(known);
        }
        if std::mem::replace(&mut self.open[at], true) {
            return Err("has references that lead in a circle without descending into the value".to_owned());
        }
        self.length += 1;
        if self.length > MAX_CHAIN {
            return Err(format!("has a chain of more than {MAX_CHAIN} subschemas for one value"));
        }
        let mut next = Vec::new();
        self.rules[at].each_in_place(&mut |id| next.push(id));
        let mut sum = 1_u64;
        for id in next {
            sum = sum.saturating_add(self.fan(id)?);
        }
        self.length -= 1;
        self.open[at] = false;
        if sum > MAX_FAN {
            return Err(format!("has references that fan out to more than {MAX_FAN} checks of one value"));
        }
        self.fan[at] = Some(sum);
        Ok(sum)
    }
}
