//! What the database starts that knows more than the database: services at ports of its block, tables of others.

use std::{rc::Rc, sync::Arc};

use tidegate_core::conf::Config;
use tidegate_net::service::Service;
use tidegate_sql::Engine;

/// Queues, for clients of beanstalkd.
pub(crate) fn beanstalk(config: &Arc<Config>) -> Rc<dyn Service> {
    crate::queue::beanstalk::open(config)
}

/// Makes tables that others need, where there are none, as the engine is opened for a configuration.
pub(crate) fn prepare_tables(engine: &Engine, config: &Config) {
    crate::queue::prepare_tables(engine, config);
}
