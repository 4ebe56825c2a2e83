//! Services at ports of the `database` block that know more than the database.

use std::{rc::Rc, sync::Arc};

use tidegate_core::conf::Config;
use tidegate_net::service::Service;

/// Queues, for clients of beanstalkd.
pub(crate) fn beanstalk(config: &Arc<Config>) -> Rc<dyn Service> {
    crate::queue::beanstalk::open(config)
}
