-- KEYS: a lock. ARGV: the caller's name, its further life in ms, 0 to give it up.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if tonumber(ARGV[2]) > 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
else
  redis.call('UNLINK', KEYS[1])
end
return 1
