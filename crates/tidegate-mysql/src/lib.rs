//! MySQL wire protocol: packets, client, pools.
