-- require "tidegate.fault": panics for tests (src/api/fault.rs).

local _, native, base = ...

package.preload["tidegate.fault"] = function()
    return {
        call = native.call,
        compiled = function(number)
            return native.compiled(number)
        end,
        object = native.object,
        rows = native.rows,
        wait = function()
            return base.settle(native.wait())
        end,
        answer = function()
            return base.settle(native.answer())
        end,
    }
end
