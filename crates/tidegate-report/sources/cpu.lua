local random = math.random
local n = tonumber(ngx.var.arg_n)
local dat = {}
math.randomseed(os.time())
for i = 1, n do
    dat[i] = random(0, 10000)
end
table.sort(dat)
local sum = 0
for i = 1, n do
    sum = sum + dat[i]
end
ngx.say("sum: " .. sum .. ", cnt: " .. n .. ", avg: " .. sum / n)
