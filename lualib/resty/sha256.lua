-- resty.sha256: digests in steps. new(), then update(text) any number of times, final() for the 32 bytes, reset().

return require("tidegate.digest").hasher(3)
