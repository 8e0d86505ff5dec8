//! Instance: an NF instance in the hands of a worker.

use headgate_decide::pressure::{Load, QueueMarks};
use headgate_units::InstanceId;

use crate::link::Link;

/// An instance as its worker sees it.
pub(crate) struct Instance {
    pub(crate) number: InstanceId,
    /// The marks of its queue, and whether it keeps up now.
    pub(crate) queue_marks: Option<QueueMarks>,
    pub(crate) load: Load,
    pub(crate) link: Link,
}
