//! Lua inside: virtual machine, light-thread scheduler, the ngx API, cosockets.
