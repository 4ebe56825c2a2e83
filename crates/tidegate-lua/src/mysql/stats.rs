//! What pools have done and hold, as Lua tables: those of `resty.mysql` and those of `drizzle_pass`.

use tidegate_core::worker;
use tidegate_modules::drizzle;
use tidegate_mysql::Histogram;

use super::link::Link;
use crate::error::CResult;
use crate::socket::pool;
use crate::stack::Lua;

/// `pool_stats()`: a table of this worker's pools by name.
pub(super) fn pool_stats(lua: &mut Lua) -> CResult {
    lua.reserve(8)?;
    let pools = pool::all::<Link>();
    lua.push_table(0, i32::try_from(pools.len()).unwrap_or(0));
    for pool in pools {
        let [open, idle, waiting] = pool.numbers();
        let counts = pool.counts();
        let latency = pool.notes().latency.borrow().clone();
        let numbers = [
            ("size", pool.size() as u64),
            ("open", open as u64),
            ("idle", idle as u64),
            ("waiting", waiting as u64),
            ("made", counts.made),
            ("reused", counts.reused),
            ("expired", counts.expired),
            ("waited", counts.waited),
            ("rejected", counts.rejected),
            ("statements", latency.count()),
            ("errors", pool.notes().errors.get()),
        ];
        push_pool(lua, &numbers, &latency);
        lua.raw_set_field(-2, pool.key());
    }
    Ok(1)
}

/// `drizzle_stats()`: a table of the pools of `drizzle_server`s by the names of their upstreams, over all workers.
pub(super) fn drizzle_stats(lua: &mut Lua) -> CResult {
    lua.reserve(8)?;
    let pools = worker::config().map(|config| drizzle::pool_stats(&config)).unwrap_or_default();
    lua.push_table(0, i32::try_from(pools.len()).unwrap_or(0));
    for (name, max, stats) in pools {
        let numbers = [
            ("size", max as u64),
            ("open", stats.open as u64),
            ("idle", stats.idle as u64),
            ("waiting", stats.waiting as u64),
            ("made", stats.connects),
            ("reused", stats.hits),
            ("lent", stats.lent),
            ("expired", stats.expired),
            ("waited", stats.waits),
            ("rejected", stats.rejected),
            ("connect_errors", stats.connect_errors),
            ("replaced", stats.retries),
            ("shared", stats.shared),
            ("cancelled", stats.cancelled),
            ("statements", stats.queries),
            ("errors", stats.query_errors),
        ];
        push_pool(lua, &numbers, &stats.latency);
        lua.raw_set_field(-2, &name);
    }
    Ok(1)
}

/// `table[name] = value` for the table on top.
fn set(lua: &mut Lua, name: &str, value: u64) {
    lua.push_number(value as f64);
    lua.raw_set_field(-2, name.as_bytes());
}

fn push_pool(lua: &mut Lua, numbers: &[(&str, u64)], latency: &Histogram) {
    lua.push_table(0, i32::try_from(numbers.len()).unwrap_or(0) + 1);
    for (name, value) in numbers {
        set(lua, name, *value);
    }
    let us = |quantile| latency.quantile(quantile).as_micros() as u64;
    lua.push_table(0, 6);
    set(lua, "sum_us", latency.sum().as_micros() as u64);
    set(lua, "p50_us", us(0.5));
    set(lua, "p90_us", us(0.9));
    set(lua, "p99_us", us(0.99));
    set(lua, "max_us", us(1.0));
    lua.push_table(0, 0);
    for (number, (end, count)) in (1..).zip(latency.buckets()) {
        lua.push_table(0, 2);
        set(lua, "below_us", end.as_micros() as u64);
        set(lua, "count", count);
        lua.raw_set_index(-2, number);
    }
    lua.raw_set_field(-2, b"buckets");
    lua.raw_set_field(-2, b"latency");
}
