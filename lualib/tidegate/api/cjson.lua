-- The modules cjson and cjson.safe. They go before any lua-cjson on the search paths: Debian's, which is often there,
-- lacks what OpenResty's has.

local _, native = ...

package.preload["cjson"] = native.new
package.preload["cjson.safe"] = native.new_safe
