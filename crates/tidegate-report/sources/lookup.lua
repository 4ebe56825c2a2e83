-- A row of City by its key, for sysbench.
local connection

function thread_init()
    connection = sysbench.sql.driver():connect()
end

function event()
    connection:query("select Name from City where ID = " .. sysbench.rand.uniform(1, 4079))
end

function thread_done()
    connection:disconnect()
end
