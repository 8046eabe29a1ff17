-- KEYS: of each question the tenant's versions and the entry; then the lock (of one
-- question, when the caller would ask). ARGV: a name for new versions, their life in
-- ms, the bytes of values after which no further question is looked at; with the
-- lock: the caller's name, the lock's life in ms, whether to take it.
-- Answer: the history, of the lock 'taken', 'held' or 'free', and of each question
-- name and count of the versions and the value or false.
local answer, lock, n, room = {history, 'free'}, 'free', 2 * math.floor(#KEYS / 2), tonumber(ARGV[3])
for i = 1, n, 2 do
  local v = redis.call('HMGET', KEYS[i], 'history', 'life', 'count')
  if v[1] ~= history then
    redis.call('UNLINK', KEYS[i])
    v = {history, ARGV[1] .. '.' .. i, '0'}
    redis.call('HSET', KEYS[i], 'history', history, 'life', v[2], 'count', 0)
    redis.call('PEXPIRE', KEYS[i], ARGV[2])
  end
  local e, value = redis.call('HMGET', KEYS[i + 1], 'life', 'count', 'tables'), false
  if e[1] == v[2] and current(KEYS[i], tonumber(e[2]), cmsgpack.unpack(e[3])) then
    value = redis.call('HGET', KEYS[i + 1], 'value')
    room = room - #value
  end
  answer[#answer + 1], answer[#answer + 2], answer[#answer + 3] = v[2], v[3], value
  if room < 0 then break end
end
if #KEYS > n and not answer[5] then
  if ARGV[6] == 'take' then
    if redis.call('SET', KEYS[3], ARGV[4], 'NX', 'PX', ARGV[5]) then answer[2] = 'taken' else answer[2] = 'held' end
  elseif redis.call('EXISTS', KEYS[3]) == 1 then
    answer[2] = 'held'
  end
end
return answer
