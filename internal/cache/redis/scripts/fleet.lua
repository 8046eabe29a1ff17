-- KEYS: the fleet. ARGV: the caller's name, which of its lives, its lease in ms,
-- the server's time in ms after which this is too late (0 for never), what to do
-- (renew, look, leave), a name that was never used, the ms after which an absent
-- member is given up, the history that the caller knows: in another it only looks.
-- Answer: the time, the history, the fleet's life, the epoch, whether the caller
-- had a lease, the ms for which all others have one (-1: no others), how many they
-- are, and pairs of a name and 0, 1 for each that has none, 2 for each with another
-- view: what follows the 16 digits of a life.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if tonumber(ARGV[4]) > 0 and now > tonumber(ARGV[4]) then
  return redis.error_reply('WHLATE it waited too long for the server')
end
local me, lives = 'm:' .. ARGV[1], 2 * 3600 * 1000 + ARGV[7]
local what = ARGV[5]
if what == 'renew' and ARGV[8] ~= history then what = 'look' end
if redis.call('HGET', KEYS[1], 'history') ~= history then
  redis.call('UNLINK', KEYS[1])
  redis.call('HSET', KEYS[1], 'history', history, 'life', ARGV[6], 'epoch', ARGV[6])
end
local all, mine, left, members = redis.call('HGETALL', KEYS[1]), 0, -1, {}
local epoch = redis.call('HGET', KEYS[1], 'epoch')
for i = 1, #all, 2 do
  if string.sub(all[i], 1, 2) == 'm:' then
    local life, ends = string.match(all[i + 1], '^(%w+) (%d+)$')
    ends = tonumber(ends)
    if all[i] == me then
      if life == ARGV[2] then
        if now < ends then mine = 1 end
      elseif what ~= 'look' then
        epoch = ARGV[6] -- its life before ended with what it had not told
      end
    elseif now > ends + ARGV[7] then
      redis.call('HDEL', KEYS[1], all[i])
      epoch = ARGV[6]
    else
      local state = 1
      if now < ends and string.sub(life, 17) ~= string.sub(ARGV[2], 17) then
        state = 2
      elseif now < ends then
        state = 0
        if left < 0 or ends - now < left then left = ends - now end
      end
      members[#members + 1] = string.sub(all[i], 3)
      members[#members + 1] = state
    end
  end
end
if what == 'leave' then
  redis.call('HDEL', KEYS[1], me)
elseif what == 'renew' then
  redis.call('HSET', KEYS[1], me, ARGV[2] .. ' ' .. string.format('%d', now + ARGV[3]))
end
-- Written each time: a server that refuses writes is found out.
redis.call('HSET', KEYS[1], 'epoch', epoch)
redis.call('PEXPIRE', KEYS[1], string.format('%d', lives))
local born = redis.call('HGET', KEYS[1], 'life')
return {now, history, born, epoch, mine, left, members}
