-- resty.sha: what the modules of the SHA family share; they need nothing of it here.

return { _VERSION = "0.15" }
