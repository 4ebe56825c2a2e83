//! What no script can do, whatever it tries: every function with wrong objects, numbers and nulls.

use std::ffi::c_int;
use std::sync::Arc;

use mlua_sys as ffi;

use crate::api;
use crate::phase::Phase;
use crate::scheduler::Outcome;
use crate::shdict::Zone;
use crate::stack::Type;
use crate::testing::{run_in, vm_with};
use crate::vm::VmConfig;

/// Objects of each native type: `objects.name`. Those of the embedded engine need one, and have cases of their own.
const OBJECTS: &str = "
    local mysql, socket, pipe, fault, ssl = classic.mysql, classic.socket, classic.pipe, classic.fault, classic.ssl
    local pem = io.open(CERTIFICATE):read('*a')
    local objects = {
        semaphore = require('ngx.semaphore').new(1).sem,
        tcp = ngx.socket.tcp()[1],
        udp = ngx.socket.udp()[1],
        pattern = socket.receiveuntil(ngx.socket.tcp(), 'x'),
        certificates = ssl.parse_pem_cert(pem),
        key = ssl.parse_pem_key(io.open(KEY):read('*a')),
        mysql = mysql.new(),
        process = pipe.spawn({ '/bin/true' }, nil, false, 4096),
        file = io.tmpfile(),
        proxy = newproxy(true),
    }
    for _, name in ipairs { 'semaphore', 'tcp', 'udp', 'pattern', 'certificates', 'key', 'mysql', 'process' } do
        assert(type(objects[name]) == 'userdata', name)
    end
";

/// Functions that do their work on the machine or the process rather than on what they are given.
const LEFT_OUT: &str = "
    local left_out = {
        ['process.signal_graceful_exit'] = true, ['process.enable_privileged_agent'] = true, ['fault.call'] = true,
        ['fault.object'] = true, ['fault.wait'] = true, ['fault.answer'] = true, ['command.exit'] = true, ['control.exit'] = true,
        ['pipe.spawn'] = true, ['fault.compiled'] = true, ['stdlib.exit'] = true,
    }
";

/// Indexes of every kind: slots, none, the registry and its like, and what is neither.
const INDEXES: [c_int; 18] = [
    0,
    1,
    2,
    3,
    -1,
    -2,
    -3,
    -4,
    1 << 20,
    -(1 << 20),
    c_int::MAX,
    c_int::MIN,
    c_int::MIN + 1,
    ffi::LUA_REGISTRYINDEX,
    ffi::LUA_ENVIRONINDEX,
    ffi::LUA_GLOBALSINDEX,
    ffi::LUA_GLOBALSINDEX - 1,
    ffi::LUA_GLOBALSINDEX - 300,
];

#[test]
fn no_index_leads_beyond_the_stack() {
    let vm = vm_with(VmConfig::default());
    let other = vm_with(VmConfig::default());
    // SAFETY: nobody else works with the main state.
    let main = unsafe { vm.main().lua() };
    for values in 0..3 {
        for index in INDEXES {
            main.protect(|lua| {
                lua.set_top(values);
                let is_slot = (1..=values).contains(&index) || (-values..0).contains(&index);
                let is_table = [ffi::LUA_REGISTRYINDEX, ffi::LUA_GLOBALSINDEX].contains(&index);
                let expected = match (is_slot, is_table) {
                    (true, _) => Type::Nil,
                    (_, true) => Type::Table,
                    _ => Type::None,
                };
                assert_eq!(lua.type_of(index), expected, "{index} of {values}");
                assert_eq!(lua.to_bytes(index), None);
                assert_eq!(lua.to_number(index), None);
                assert_eq!(lua.to_bool(index), is_table);
                assert_eq!(lua.to_thread(index), None);
                assert!(lua.to_userdata(index).is_null() && !lua.is_c_function(index));
                assert_eq!(lua.raw_len(index), 0);
                lua.push_value(index);
                assert_eq!(lua.type_of(-1), if is_table { Type::Table } else { Type::Nil });
                lua.set_top(values);
                lua.insert(index);
                lua.replace(index);
                lua.remove(index);
                lua.set_metatable(index);
                lua.raw_get(index);
                lua.raw_get_index(index, 7);
                lua.next(index);
                lua.pop(index);
                lua.move_to(vm.main(), index);
                lua.move_to(other.main(), index);
                assert_eq!(lua.take(other.main()) + lua.take(vm.main()), 0);
                lua.set_top(values);
                if !(0..values).contains(&index) {
                    lua.call(index, 0).expect_err("there is no such function");
                }
                assert_eq!(lua.top(), values);
                Ok(())
            })
            .expect("no error");
        }
    }
}

fn attack(code: &str) {
    let zone = Zone::open(&"soundness".into(), 100 << 10);
    let vm = vm_with(VmConfig { shared_dicts: vec![Arc::clone(&zone)], ..VmConfig::default() });
    // SAFETY: nobody else works with the main state.
    unsafe { vm.main().lua() }
        .protect(|lua| {
            api::push_everything(lua);
            lua.raw_set_field(ffi::LUA_GLOBALSINDEX, b"compiled");
            lua.raw_set_field(ffi::LUA_GLOBALSINDEX, b"classic");
            for (name, file) in [("CERTIFICATE", "mariadb-cert.pem"), ("KEY", "mariadb-key.pem")] {
                let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/");
                lua.push_bytes(format!("{fixtures}{file}").as_bytes());
                lua.raw_set_field(ffi::LUA_GLOBALSINDEX, name.as_bytes());
            }
            Ok(())
        })
        .expect("globals");
    let ran = run_in(&vm, Phase::Content, &[OBJECTS, LEFT_OUT, code].concat());
    assert_eq!(ran.out, ["done"], "{ran:?}");
    assert_eq!(ran.outcome, Outcome::Done, "{ran:?}");
}

#[test]
fn no_function_takes_an_object_for_another() {
    attack(
        "local metatables, called = {}, 0
         for name, object in pairs(objects) do
             metatables[#metatables + 1] = debug.getmetatable(object)
         end
         local function call_all(object)
             for family, functions in pairs(classic) do
                 for name, f in pairs(functions) do
                     if not left_out[family .. '.' .. name] then
                         called = called + 1
                         pcall(f, object)
                         pcall(f, { object }, object, object)
                         pcall(f, 1, object, { object, object })
                         pcall(f, object, 0/0, -1, 2^53)
                         pcall(f, object, 'text', object)
                     end
                 end
             end
         end
         for name, object in pairs(objects) do
             call_all(object)
             local own = debug.getmetatable(object)
             if name ~= 'file' and name ~= 'proxy' then
                 for _, foreign in ipairs(metatables) do
                     debug.setmetatable(object, foreign)
                     call_all(object)
                 end
                 debug.setmetatable(object, nil)
                 call_all(object)
                 debug.setmetatable(object, own)
             end
             for _, metatable in ipairs(metatables) do
                 if metatable.__gc and not metatable.__tostring then
                     pcall(metatable.__gc, object)
                     pcall(metatable.__gc, object)
                     pcall(metatable.__gc)
                 end
             end
             call_all(object)
         end
         assert(called > 10000, called)
         collectgarbage() collectgarbage()
         out('done')",
    );
}

#[test]
fn no_compiled_function_trusts_its_arguments() {
    attack(
        "local ffi = require 'ffi'
         local structs = { ['tg_str *'] = 'tg_str[1]', ['double *'] = 'double[1]', ['tg_regex *'] = 'tg_regex[1]',
             ['tg_dict_value *'] = 'tg_dict_value[1]' }
         local numbers = { 0, 1, -1, 2, 7, 0/0, 1/0, -1/0, 2^31, 2^32 - 1, 2^40, 2^53, -2^31, 1e300, 0.5 }
         local called, seed = 0, 1
         local function random(n)
             seed = (seed * 16807) % 2147483647
             return seed % n + 1
         end
         local function arguments(parameters, null, number)
             local list, n = {}, 0
             local i = 3
             while parameters[i] do
                 local c = parameters[i]
                 n = n + 1
                 if c == 'const char *' and null then
                     list[n], list[n + 1] = nil, number or 0
                     n, i = n + 1, i + 1
                 elseif c == 'const char *' then
                     local text = ({ '', 'x', ('a'):rep(70000), 'text\\0with' })[random(4)]
                     list[n], list[n + 1] = text, #text
                     n, i = n + 1, i + 1
                 elseif structs[c] then
                     list[n] = not null and ffi.new(structs[c]) or nil
                 else
                     list[n] = number or numbers[random(#numbers)]
                 end
                 i = i + 1
             end
             return list, n
         end
         for family, functions in pairs(compiled) do
             for name, parameters in pairs(functions) do
                 if not left_out[family .. '.' .. name] then
                     local f = ffi.cast(parameters[1], parameters[2])
                     for round = 1, 60 do
                         local number = round <= 2 * #numbers and numbers[(round + 1) / 2 - (round + 1) / 2 % 1]
                         local list, n = arguments(parameters, round % 2 == 1, number or nil)
                         called = called + 1
                         pcall(f, unpack(list, 1, n))
                     end
                     -- What LuaJIT must refuse: other pointers in the place of ours.
                     for i = 3, #parameters do
                         if structs[parameters[i]] then
                             local list, n = arguments(parameters)
                             for at = 1, n do
                                 if type(list[at]) == 'cdata' then
                                     list[at] = ffi.new('struct { char x[1]; }[1]')
                                 end
                             end
                             assert(not pcall(f, unpack(list, 1, n)), family .. '.' .. name)
                         end
                     end
                 end
             end
         end
         assert(called > 3000, called)
         out('done')",
    );
}

#[test]
fn handles_are_no_addresses() {
    attack(
        "local dict, md5 = ngx.shared.soundness, require('resty.md5'):new()
         local wrong = { ngx.null, 1LL, 1, -1, 2^32, 2^53, 0/0, {}, 'x', true, md5._ctx, newproxy(), print, coroutine.create(print) }
         for _, value in ipairs(wrong) do
             for name, method in pairs(getmetatable(dict)) do
                 if type(method) == 'function' then
                     pcall(method, { value }, 'key', 1)
                     pcall(method, { dict[1], value }, 'key', 1)
                     pcall(method, { value, value }, value, value)
                     pcall(method, { value, dict[2] }, value, value)
                     pcall(method, value)
                 end
             end
             for _, name in ipairs { 'update', 'final', 'reset' } do
                 pcall(md5[name], { _ctx = value }, 'text')
                 pcall(md5[name], value, 'text')
             end
         end
         local number = dict[2]
         assert(dict:set('a', 'b') and dict:get('a') == 'b')
         assert(type(number) == 'number')
         assert(md5:update('a') and #md5:final() == 16)
         collectgarbage()
         local matcher = require('tidegate.re').matcher
         local match = matcher('(a)(b)?', 'jo')
         for _, value in ipairs(wrong) do
             pcall(match, value, value)
             pcall(match, 'ab', value)
             pcall(match, value, 0)
             pcall(matcher, value, value)
         end
         assert(match('ab', 0) == 3)
         out('done')",
    );
}
