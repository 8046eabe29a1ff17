-- KEYS: the tenant's versions, the entry. ARGV: name and count of the moment
-- before the value was asked for, its life in ms, that of the versions, the value,
-- tables. It is judged when it is carried out, however late that is.
local v = redis.call('HMGET', KEYS[1], 'history', 'life')
if v[1] ~= history or v[2] ~= ARGV[1] then return 0 end
local tables = {}
for i = 6, #ARGV do tables[#tables + 1] = ARGV[i] end
if not current(KEYS[1], tonumber(ARGV[2]), tables) then return 0 end
local e = redis.call('HMGET', KEYS[2], 'life', 'count')
if e[1] == v[2] and tonumber(e[2]) > tonumber(ARGV[2]) then return 0 end
redis.call('HSET', KEYS[2], 'life', ARGV[1], 'count', ARGV[2], 'tables', cmsgpack.pack(tables), 'value', ARGV[5])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 1
