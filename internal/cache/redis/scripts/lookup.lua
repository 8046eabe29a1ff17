-- KEYS: the tenant's versions, the entry, the lock (when the caller would ask).
-- ARGV: a name for new versions, their life in ms; with the lock: the caller's
-- name, the lock's life in ms, whether to take it.
-- Answer: name and count of the versions, the value or false, and of the lock
-- 'taken', 'held' or 'free'; the history.
local v = redis.call('HMGET', KEYS[1], 'history', 'life', 'count')
if v[1] ~= history then
  redis.call('UNLINK', KEYS[1])
  redis.call('HSET', KEYS[1], 'history', history, 'life', ARGV[1], 'count', 0)
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  v = {history, ARGV[1], '0'}
end
local e = redis.call('HMGET', KEYS[2], 'life', 'count', 'tables')
if e[1] == v[2] and current(KEYS[1], tonumber(e[2]), cmsgpack.unpack(e[3])) then
  return {v[2], v[3], redis.call('HGET', KEYS[2], 'value'), 'free', history}
end
local lock = 'free'
if #KEYS > 2 then
  if ARGV[5] == 'take' then
    if redis.call('SET', KEYS[3], ARGV[3], 'NX', 'PX', ARGV[4]) then lock = 'taken' else lock = 'held' end
  elseif redis.call('EXISTS', KEYS[3]) == 1 then
    lock = 'held'
  end
end
return {v[2], v[3], false, lock, history}
