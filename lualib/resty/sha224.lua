-- resty.sha224: digests in steps. new(), then update(text) any number of times, final() for the 28 bytes, reset().

return require("tidegate.digest").hasher(2)
