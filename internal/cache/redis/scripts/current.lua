-- KEYS: the tenant's versions. ARGV: name and count of a moment, tables.
local v = redis.call('HMGET', KEYS[1], 'history', 'life')
local tables = {}
for i = 3, #ARGV do tables[#tables + 1] = ARGV[i] end
if v[1] == history and v[2] == ARGV[1] and current(KEYS[1], tonumber(ARGV[2]), tables) then return history end
return ''
