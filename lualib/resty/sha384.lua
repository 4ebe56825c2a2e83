-- resty.sha384: digests in steps. new(), then update(text) any number of times, final() for the 48 bytes, reset().

return require("tidegate.digest").hasher(4)
