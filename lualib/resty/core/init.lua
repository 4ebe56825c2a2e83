-- resty.core: the FFI API is always loaded here, so that there is nothing to do.

return { version = "0.1.32" }
