-- resty.sha512: digests in steps. new(), then update(text) any number of times, final() for the 64 bytes, reset().

return require("tidegate.digest").hasher(5)
