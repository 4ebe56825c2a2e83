-- resty.md5: digests in steps. new(), then update(text) any number of times, final() for the 16 bytes, reset().

return require("tidegate.digest").hasher(0)
