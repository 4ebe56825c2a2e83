//! CREATE VIEW and ALTER VIEW.

use std::sync::Arc;

use super::{Res, change, check_name, definer_of, describe_view, internal, next_table_id, schema_of, view_columns};
use crate::{
    account_name::Name,
    catalog::{Definer, Table, TableState},
    catalog_file, errors,
    parse::{
        account::Who,
        view::{Algorithm, CreateView, Existing},
    },
    schema::Schema,
    session::Core,
    sql_mode,
    translate::view::through::ViewText,
    value::collation::Collation,
};

/// Carries out CREATE VIEW and ALTER VIEW.
///
/// # Errors
/// 1050, 1146, 1347, 1353, 1368, 1227; what the text says.
pub(super) fn create(core: &mut Core, view: &CreateView, sql: &[u8]) -> Res<u64> {
    let name = view.name.name.as_str();
    check_name(name)?;
    let schema = schema_of(core, &view.name)?;
    let old = altered(view, &schema)?;
    let definer = definer(core, view, old.as_deref())?;
    // The view must mean something now; what its columns are is asked again at each use.
    let mode = core.env.statement_mode() & sql_mode::READING;
    let (from, to) = view.text;
    let text = String::from_utf8_lossy(&sql[from..to]).trim_end_matches([';', ' ', '\n']).to_owned();
    let described = describe_view(core, &text, mode, &schema)?;
    let algorithm = algorithm(core, view, old.as_deref(), ViewText { text: &text, mode, schema: &schema })?;
    if !view.columns.is_empty() && view.columns.len() != described.len() {
        return Err(errors::view_columns());
    }
    let columns = described
        .into_iter()
        .enumerate()
        .map(|(index, found)| {
            let name = view.columns.get(index).cloned().unwrap_or_else(|| found.name.clone());
            view_columns::view_column(core, found, name, index as u32 + 1)
        })
        .collect();
    let made = change(core, &schema, &[name], |conn, catalog| {
        let id = match (catalog.table(name), view.existing) {
            (Some(old), Existing::Replaced | Existing::Altered) if old.is_view() => old.id,
            (Some(_), Existing::Replaced | Existing::Altered) => return Err(errors::not_a_view(&schema.name, name)),
            (Some(_), Existing::Refused | Existing::Kept) => return Err(errors::table_exists(name)),
            (None, Existing::Altered) => return Err(errors::no_such_table(&schema.name, name)),
            (None, _) => next_table_id(conn)?,
        };
        let table = Table {
            id,
            name: name.to_owned(),
            columns,
            indexes: Vec::new(),
            foreign_keys: Vec::new(),
            checks: Vec::new(),
            engine: sql_mode::text_of(mode),
            collation: Collation::DEFAULT,
            comment: Table::view_comment(&definer, view.check, algorithm),
            created: core.env.now_micros() / 1_000_000,
            view: Some(text),
            next_column_id: 1,
            state: Arc::new(TableState::default()),
        };
        catalog_file::store(conn, &table).map_err(internal)
    });
    match made {
        Err(error) if view.existing == Existing::Kept && error.code == errors::TABLE_EXISTS => core.env.note(error),
        made => made?,
    }
    Ok(0)
}

/// How the rows of the view are to be found, where that can be done; what a check option wants is looked at with it.
///
/// # Errors
/// 1368.
fn algorithm(core: &Core, view: &CreateView, old: Option<&Table>, text: ViewText<'_>) -> Res<Algorithm> {
    let is_aggregate = core.above.library.is_aggregate;
    let mut algorithm = view.algorithm.or(old.map(Table::algorithm)).unwrap_or_default();
    if algorithm == Algorithm::Merge && !text.can_merge(is_aggregate)? {
        core.env.warn(errors::no_merge());
        algorithm = Algorithm::Undefined;
    }
    let is_refused = |text: ViewText<'_>| -> Res<bool> {
        let shape = text.shape(&core.engine, is_aggregate)?;
        Ok(shape.is_none_or(|shape| shape.is_outer))
    };
    if view.check.is_some() && (algorithm == Algorithm::Temptable || is_refused(text)?) {
        return Err(errors::no_check_option(&text.schema.name, &view.name.name));
    }
    Ok(algorithm)
}

/// The view that ALTER VIEW is about; `None` for CREATE VIEW.
///
/// # Errors
/// 1146, 1347.
fn altered(view: &CreateView, schema: &Schema) -> Res<Option<Arc<Table>>> {
    if view.existing != Existing::Altered {
        return Ok(None);
    }
    let name = &view.name.name;
    match schema.catalog()?.table(name) {
        Some(old) if old.is_view() => Ok(Some(Arc::clone(old))),
        Some(_) => Err(errors::not_a_view(&schema.name, name)),
        None => Err(errors::no_such_table(&schema.name, name)),
    }
}

/// As whom the view will be run. ALTER VIEW keeps what it does not name, if the session may make views for that definer.
///
/// # Errors
/// Those of [`definer_of`].
fn definer(core: &Core, view: &CreateView, old: Option<&Table>) -> Res<Definer> {
    let old = old.map(Table::definer);
    let is_invoker = view.is_invoker.unwrap_or_else(|| old.as_ref().is_some_and(|old| old.is_invoker));
    let kept = old.map(|old| {
        let Name { user, host } = old.shown();
        Who::Named { user, host: Some(host) }
    });
    definer_of(core, view.definer.as_ref().or(kept.as_ref()), is_invoker)
}
