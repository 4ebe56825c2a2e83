-- resty.sha1: digests in steps. new(), then update(text) any number of times, final() for the 20 bytes, reset().

return require("tidegate.digest").hasher(1)
