-- KEYS: versions of tenants. ARGV: the most fields of one, then tables; every
-- table when there is none. Versions that are gone, or of another history, have
-- nothing to drop.
for _, key in ipairs(KEYS) do
  if #ARGV < 2 then
    redis.call('UNLINK', key)
  elseif redis.call('HGET', key, 'history') == history then
    local count = redis.call('HINCRBY', key, 'count', 1)
    for i = 2, #ARGV do redis.call('HSET', key, ARGV[i], count) end
    if redis.call('HLEN', key) > tonumber(ARGV[1]) then redis.call('UNLINK', key) end
  end
end
return history
