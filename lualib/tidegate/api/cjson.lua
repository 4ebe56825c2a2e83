-- The modules cjson and cjson.safe. A lua-cjson on the user's search path goes before them.

local _, native, base = ...

base.modules["cjson"] = native.new
base.modules["cjson.safe"] = native.new_safe
