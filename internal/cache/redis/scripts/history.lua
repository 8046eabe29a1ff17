-- What begins every script. The history is the server's id of its replication: it
-- is another after each restart and each failover, so that whatever was stored
-- before, and may have lost writes, is known as such.
local info = redis.call('INFO', 'replication')
if not string.find(info, 'role:master', 1, true) then
  return redis.error_reply('READONLY the server is a replica')
end
local history = string.match(info, 'master_replid:(%w+)')
if not history then
  return redis.error_reply('ERR the server does not tell its master_replid')
end

-- current reports whether none of the tables was written after the moment.
local function current(versions, moment, tables)
  if #tables == 0 then return true end
  for _, mark in ipairs(redis.call('HMGET', versions, unpack(tables))) do
    if mark and tonumber(mark) > moment then return false end
  end
  return true
end
