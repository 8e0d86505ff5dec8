//! Every choice Headgate makes, as pure state machines.
