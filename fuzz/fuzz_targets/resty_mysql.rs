//! Packets of columns and rows become Lua tables: nothing panics or touches memory that it must not, and the tables hold what
//! the packets say. One virtual machine lives through all inputs, as that of a worker does.

#![no_main]

use std::rc::Rc;

use libfuzzer_sys::fuzz_target;
use tidegate_lua::vm::{Vm, VmConfig};

thread_local! {
    static VM: Rc<Vm> = Vm::new(VmConfig::default()).unwrap_or_else(|_| panic!("there is memory"));
}

fuzz_target!(|input: &[u8]| VM.with(|vm| tidegate_lua::check_any_result(vm, input)));
