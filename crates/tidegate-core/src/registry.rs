//! The list of modules.

use std::{collections::HashMap, sync::OnceLock};

use crate::module::AnyModule;

/// All modules, in the order in which their handlers and filters run.
pub struct Registry {
    modules: Vec<&'static dyn AnyModule>,
}

static REGISTRY: OnceLock<Registry> = OnceLock::new();

impl Registry {
    /// Makes the process's registry: the core's own modules, then `lists`, and gives every module its position. The
    /// first call decides; later ones return what that made.
    pub fn install(lists: &[&[&'static dyn AnyModule]]) -> &'static Registry {
        REGISTRY.get_or_init(|| {
            let modules: Vec<_> = crate::MODULES.iter().chain(lists.iter().copied().flatten()).copied().collect();
            for (slot, module) in modules.iter().enumerate() {
                module.set_slot(slot);
            }
            Registry { modules }
        })
    }

    /// The modules.
    pub fn modules(&self) -> &[&'static dyn AnyModule] {
        &self.modules
    }

    /// What is wrong with the tables themselves; empty when all is well. Called by tests.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut places: HashMap<&str, Vec<(&str, u32)>> = HashMap::new();
        for module in &self.modules {
            for info in module.directives() {
                if info.doc.is_empty() {
                    problems.push(format!("{}: \"{}\" has no documentation", module.name(), info.name));
                }
                if info.arity.min > info.arity.max {
                    problems.push(format!("{}: \"{}\" takes {:?} arguments", module.name(), info.name, info.arity));
                }
                if info.syntax.is_empty() && info.arity.max > 0 {
                    problems.push(format!("{}: \"{}\" does not say what arguments it takes", module.name(), info.name));
                }
                let others = places.entry(info.name).or_default();
                if let Some((other, _)) = others.iter().find(|(_, contexts)| contexts & info.contexts.0 != 0) {
                    problems.push(format!("\"{}\" belongs to {other} and {}", info.name, module.name()));
                }
                others.push((module.name(), info.contexts.0));
            }
            for variable in module.variables() {
                if variable.doc.is_empty() {
                    problems.push(format!("{}: ${} has no documentation", module.name(), variable.name));
                }
            }
        }
        problems
    }
}
